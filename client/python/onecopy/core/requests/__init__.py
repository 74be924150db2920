"""From what callers name to the requests that the native module sends."""
