// Empty: its presence lets main.go declare a function whose body is in yunikorn-core.
