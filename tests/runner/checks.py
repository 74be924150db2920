def run(root, build, logs, env, named, required, outcome):
    pass
