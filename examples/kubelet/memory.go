package main

import (
	"os"
	"runtime/debug"
)

// gcPercent is how much garbage may lie about, as a percentage of what is in use:
// some 4 MB with 50 pods, which are collected within milliseconds. Half of Go's
// default costs no CPU time that shows and saves 2 to 3 MiB of resident memory.
const gcPercent = 50

// saveMemory makes the process small, unless its environment says otherwise.
func saveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
