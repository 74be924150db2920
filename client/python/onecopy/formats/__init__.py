"""Files of arrays and tables: safetensors, npy, Parquet, ORC, Arrow. Uses the core, and no integration."""
