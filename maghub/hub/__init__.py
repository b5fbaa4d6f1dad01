"""The Hub: ``push``, ``pull`` and opening a repo as if it were a local folder.

maghub handles no tokens: the client reads them (``HF_TOKEN`` or ``hf auth login``).
"""
