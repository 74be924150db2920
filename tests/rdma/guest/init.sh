#!/bin/sh
# The guest's first program, in its initramfs: mounts the host's root below an overlay and goes there.
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sysfs /sys
$busybox mount -t devtmpfs dev /dev
for module in /modules/*.ko; do
  $busybox insmod "$module" || echo "init: $module cannot be loaded"
done
if $busybox grep -q onecopy_probe /proc/cmdline; then
  echo 'init: probed'
  $busybox poweroff -f
fi

nine_p=trans=virtio,version=9p2000.L,msize=512000
$busybox mount -t 9p -o ro,cache=loose,$nine_p root /low || echo 'init: the host root cannot be mounted'
$busybox mount -t tmpfs -o size=75% tmpfs /memory
$busybox mkdir /memory/upper /memory/work
$busybox mount -t overlay -o lowerdir=/low,upperdir=/memory/upper,workdir=/memory/work overlay /new ||
  echo 'init: the overlay cannot be mounted'
for folder in proc sys dev; do
  $busybox mount -o move /$folder /new/$folder
done
$busybox mkdir -p /new/dev/shm /new/dev/pts /new/run
for link in fd: stdin:/0 stdout:/1 stderr:/2; do  # which udev would make
  $busybox ln -s "/proc/self/fd${link#*:}" "/new/dev/${link%%:*}"
done
$busybox mount -t devpts devpts /new/dev/pts
$busybox mount -t tmpfs -o mode=1777 tmpfs /new/dev/shm
$busybox mount -t tmpfs tmpfs /new/run
$busybox mkdir -m 1777 /new/run/tmp /new/run/out
$busybox mount -t 9p -o rw,cache=none,$nine_p out /new/run/out || echo 'init: the folder for output cannot be mounted'
# Process 1 itself changes root, so that the kernel's own calls of modprobe follow it.
exec $busybox chroot /new /bin/bash /run/out/guest-start </new/dev/null
