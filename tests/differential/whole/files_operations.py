ALL = ()
