NAME="unit"
def run(context): return []
