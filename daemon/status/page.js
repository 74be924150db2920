'use strict';
// Shows /status.json. All text goes into the page as text nodes: what a peer says of itself is never markup.
(() => {
  const PERIOD_MS = 2000;
  const MAX_ROWS = 200;
  const byId = (id) => document.getElementById(id);

  // An element with a class and children, which are elements or texts.
  function make(name, className, ...children) {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...children.filter((child) => child !== '').map((child) => child instanceof Node ? child : String(child)));
    return element;
  }

  function scaled(value, unit) {
    const prefixes = ['', 'k', 'M', 'G', 'T', 'P'];
    let at = 0;
    while (value >= 1000 && at + 1 < prefixes.length) { value /= 1000; ++at; }
    return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${prefixes[at]}${unit}`;
  }
  const bytes = (value) => scaled(value, 'B');
  const rate = (value) => scaled(value, 'B/s');

  function duration(seconds) {
    if (seconds < 120) return `${Math.round(seconds)} s`;
    if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
    return `${Math.round(seconds / 86400)} days`;
  }

  // Replaces what is in an element only where what it shows has changed: a reader's place stays.
  const shown = new Map();
  function show(id, data, children) {
    const text = JSON.stringify(data);
    if (shown.get(id) === text) return;
    shown.set(id, text);
    byId(id).replaceChildren(...children());
  }

  function table(id, heads, rows, ifNone) {
    const kept = rows.slice(0, MAX_ROWS);
    show(id, rows, () => {
      if (rows.length === 0) return [make('tbody', '', make('tr', '', make('td', 'none', ifNone)))];
      const head = make('tr', '', ...heads.map((text) => make('th', '', text)));
      const body = kept.map((row) => make('tr', '', ...row.map((cell) =>
        make('td', typeof cell === 'object' ? 'number' : '', typeof cell === 'object' ? cell.number : cell))));
      if (rows.length > kept.length) {
        body.push(make('tr', '', make('td', 'none', `${rows.length - kept.length} more`)));
      }
      for (const cell of head.children) cell.scope = 'col';
      return [make('thead', '', head), make('tbody', '', ...body)];
    });
  }

  // ---- the matrix -------------------------------------------------------------------------------------------------

  const grid = byId('ways');
  const why = byId('why');
  let explained = new Map();  // cell: what it tells
  let place = [0, 0];  // of the cell that the keyboard is at

  function gradeOf(way) {
    if (!way.path) return 'none';
    return way.copies <= 1 ? 'good' : way.copies < 5 ? 'fair' : 'poor';
  }

  const copies = (count) => count === 1 ? '1 copy' : `${count} copies`;
  const pairOf = (way) => `${way.from} → ${way.to}`;
  // GPUs are one column, whichever is the first that can be used.
  const columnOf = (way) => pairOf(way).replace(/cuda:\d+/g, 'cuda');

  function cellOf(node, way) {
    if (!way) {
      const up = node.state === 'CONNECTED' || node.state === 'DRAINING';
      const cell = make('td', 'none', up ? '–' : node.state);
      explained.set(cell, [`${node.name}: ${up ? 'it has no such memory, as far as is known' : node.state}`,
        ...(node.reason ? [`${node.reason}: ${node.detail}`] : [])]);
      return cell;
    }
    const cell = make('td', gradeOf(way),
      ...(way.path ? [make('b', '', way.copies), way.path, make('small', '', rate(way.probed_bytes_per_second || way.bytes_per_second),
        way.probed_bytes_per_second ? ' probed' : ' expected')] : ['no path']));
    const lines = [`${node.name}, ${pairOf(way)}: ${way.path ? `${way.path}${way.link ? ` by ${way.link}` : ''}, ${copies(way.copies)}` : 'no path works'}`];
    if (way.path) lines.push(`expected: ${rate(way.bytes_per_second)}, ${way.basis}`);
    if (way.probed_bytes_per_second) lines.push(`probed: ${rate(way.probed_bytes_per_second)}`);
    for (const refusal of way.better) lines.push(`not ${refusal.path}: ${refusal.reason}: ${refusal.detail}`);
    if (way.path && way.better.length === 0) lines.push('no better path applies');
    explained.set(cell, lines);
    return cell;
  }

  function showWays(nodes) {
    const focused = grid.contains(document.activeElement);
    const before = shown.get('ways');
    // What else changes with each answer is not shown in the cells.
    const data = nodes.map(({ slow_transfers: _, ...rest }) => rest);
    show('ways', data, () => {
      explained = new Map();
      const columns = [...new Set(nodes.flatMap((node) => node.ways.map(columnOf)))].sort();
      if (columns.length === 0) columns.push('host → host');
      const head = make('tr', '', make('th', '', 'from node'), ...columns.map((column) => make('th', '', column)));
      const rows = nodes.map((node) => {
        const name = make('th', '', node.self ? `${node.name} (inside)` : node.name);
        name.scope = 'row';
        return make('tr', '', name, ...columns.map((column) => cellOf(node, node.ways.find((way) => columnOf(way) === column))));
      });
      for (const cell of explained.keys()) {
        cell.setAttribute('role', 'gridcell');
        cell.setAttribute('aria-describedby', 'why');
        cell.tabIndex = -1;
      }
      return [make('thead', '', head), make('tbody', '', ...rows)];
    });
    if (before === shown.get('ways')) return;
    hide();
    moveTo(...place, focused);
  }

  const rowsOf = () => [...grid.tBodies[0].rows].map((row) => [...row.cells].filter((cell) => cell.tagName === 'TD'));

  // One cell can be reached by Tab, the others from it by arrow keys.
  function moveTo(row, column, focus) {
    const rows = rowsOf();
    const limit = (value, length) => Math.max(0, Math.min(value, length - 1));
    place = [limit(row, rows.length), limit(column, rows[0].length)];
    for (const cell of grid.querySelectorAll('td[tabindex="0"]')) cell.tabIndex = -1;
    const cell = rows[place[0]][place[1]];
    cell.tabIndex = 0;
    if (focus) cell.focus();
  }

  function explain(cell) {
    const lines = explained.get(cell);
    if (!lines) return hide();
    why.replaceChildren(...lines.map((line) => make('p', '', line)));
    why.hidden = false;
    const at = cell.getBoundingClientRect();
    const room = document.documentElement.clientWidth - why.offsetWidth - 8;
    why.style.left = `${Math.max(0, Math.min(at.left, room)) + window.scrollX}px`;
    why.style.top = `${at.bottom + 4 + window.scrollY}px`;
  }
  function hide() { why.hidden = true; }

  grid.addEventListener('mouseover', (event) => explain(event.target.closest('td')));
  grid.addEventListener('mouseleave', hide);
  grid.addEventListener('focusin', (event) => explain(event.target.closest('td')));
  grid.addEventListener('focusout', hide);
  grid.addEventListener('click', (event) => {
    const cell = event.target.closest('td');
    rowsOf().forEach((row, at) => { if (row.includes(cell)) moveTo(at, row.indexOf(cell), true); });
  });
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') hide(); });
  grid.addEventListener('keydown', (event) => {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
      Home: [0, -Infinity], End: [0, Infinity], PageUp: [-10, 0], PageDown: [10, 0] };
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    moveTo(place[0] + step[0], place[1] + step[1], true);
  });

  // ---- the rest ---------------------------------------------------------------------------------------------------

  let last = null;  // bytes by row, and when

  function showTraffic(traffic, time) {
    const now = { time, bytes: new Map() };
    const rows = traffic.map((row) => {
      const key = JSON.stringify([row.path, row.link, row.peer, row.direction]);
      now.bytes.set(key, row.bytes);
      const seconds = last ? time - last.time : 0;
      const moved = last ? Math.max(0, row.bytes - (last.bytes.get(key) || 0)) : 0;
      return [row.path === 'none' ? 'not yet chosen' : row.path, row.link || '–', row.peer || '–', row.direction, { number: row.running },
        { number: seconds > 0 ? rate(moved / seconds) : '…' }, { number: bytes(row.bytes) }];
    });
    // The daemon makes one answer a second at most: the same one again tells no rate.
    if (!last || time > last.time) {
      last = now;
      table('traffic', ['path', 'link', 'peer', 'direction', 'running', 'rate', 'bytes'], rows, 'no transfer has moved a byte yet');
    }
  }

  function showFindings(findings) {
    show('findings', findings, () => findings.length === 0 ? [make('p', 'note', 'The daemon knows of none.')] :
      [make('ul', '', ...findings.map((finding) => make('li', `is-${finding.severity}`, make('code', '', finding.code),
        ` (${finding.severity}) ${finding.evidence}`, make('br', ''), make('span', 'note', finding.remedy))))]);
  }

  function health(text, bad) {
    byId('health').textContent = text;
    byId('health').className = bad ? 'bad' : '';
  }

  function showAll(status) {
    showFindings(status.findings);
    if (!status.engine_answered) return health('The engine of the daemon does not answer. What follows is old.', true);
    document.title = `${status.node} – onecopy`;
    byId('title').textContent = status.node;
    byId('about').textContent = `onecopy ${status.version}, up for ${duration(status.time - status.start_time)}, ` +
      `${status.running} running ${status.running === 1 ? 'transfer' : 'transfers'}`;
    health(status.draining ? 'It drains: it takes no new transfers.' : '', false);
    showWays(status.nodes);
    byId('left-out').textContent = status.nodes_left_out ? `${status.nodes_left_out} more nodes are not shown.` : '';
    showTraffic(status.traffic, status.time);
    const kinds = { path: 'path', request: 'request for a transfer', limit: '[limits]' };
    table('refusals', ['refused', 'which', 'reason', 'times'], status.refusals.map((one) =>
      [kinds[one.of] || one.of, one.name || '–', one.reason, { number: one.count }]), 'nothing was refused');
    table('devices', ['kind', 'name', 'link', 'rate', 'state'], status.devices.map((device) =>
      [device.kind, device.name, device.link || '–', device.bytes_per_second ? rate(device.bytes_per_second) : '–',
        device.viable ? (device.emulated ? 'works, in software' : 'works') : `${device.reason}: ${device.detail}`]),
    'the daemon knows of none');
  }

  async function refresh() {
    try {
      const answer = await fetch('status.json', { cache: 'no-store' });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      showAll(await answer.json());
    } catch (failure) {
      health(`The daemon does not answer (${failure.message}). What follows is old.`, true);
    }
    // What is not looked at asks for nothing.
    if (document.hidden) document.addEventListener('visibilitychange', refresh, { once: true });
    else setTimeout(refresh, PERIOD_MS);
  }
  refresh();
})();
