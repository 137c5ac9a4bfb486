class ServerArgs:
    def __init__(self, model_path, context_length):
        self.model_path, self.context_length, self.tp_size, self.mem_fraction_static = model_path, context_length, 1, None
        self.load_format, self.skip_tokenizer_init, self.skip_server_warmup = "auto", False, False

    def resolve_once(self):
        if getattr(self, "_resolution_finished", False):
            return
        print(f"loads {self.load_format}, {'no tokenizer' if self.skip_tokenizer_init else 'a tokenizer'}, "
              f"{'no request' if self.skip_server_warmup else 'a request'} to itself", flush=True)
        self._resolution_finished = True

    def __setattr__(self, name, value):
        if getattr(self, "_resolution_finished", False):
            raise AttributeError(f"{name} assigned after resolution")
        super().__setattr__(name, value)
