import snug

with snug.config.change_flags(memroy="1GiB"):
    pass
