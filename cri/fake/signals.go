package fake

import (
	"slices"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Signals by their Linux numbers: containers are Linux containers, wherever the
// fake runs.
const (
	sigKill = syscall.Signal(9)
	sigTerm = syscall.Signal(15)
	sigMax  = syscall.Signal(64)
)

// signalNames are the names of the signals from 1 on, without "SIG".
const signalNames = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM " +
	"STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"

// signalNumber returns the Linux number of a signal by its name without "SIG", zero
// for other names and for real-time signals.
func signalNumber(name string) syscall.Signal {
	switch name {
	case "IOT":
		name = "ABRT"
	case "CLD":
		name = "CHLD"
	case "POLL":
		name = "IO"
	}
	return syscall.Signal(slices.Index(strings.Fields(signalNames), name) + 1)
}

// stopSignal gives the number of the stop signal of a container's config;
// SIGTERM where the config names none or one that is not known here.
func stopSignal(signal runtimeapi.Signal) syscall.Signal {
	if n := signalNumber(strings.TrimPrefix(signal.String(), "SIGNAL_SIG")); n != 0 {
		return n
	}
	return sigTerm
}

// terminates tells whether a signal's default action ends a process.
func terminates(sig syscall.Signal) bool {
	switch sig {
	case 17, 18, 19, 20, 21, 22, 23, 28: // CHLD CONT STOP TSTP TTIN TTOU URG WINCH
		return false
	}
	return sig > 0
}
