package fake

import (
	"slices"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Linux signal numbers: the containers are Linux containers on every host.
const (
	sigKill = syscall.Signal(9)
	sigTerm = syscall.Signal(15)
	sigMax  = syscall.Signal(64)
)

// signalNames are the names of the signals from 1 on, without "SIG".
const signalNames = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM " +
	"STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"

// signalNumber returns the Linux number of a signal by its name without "SIG", or zero for other
// names and for real-time signals.
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

// stopSignal returns the number of the stop signal in a container's config, or SIGTERM if it has
// none or an unsupported one.
func stopSignal(signal runtimeapi.Signal) syscall.Signal {
	if n := signalNumber(strings.TrimPrefix(signal.String(), "SIGNAL_SIG")); n != 0 {
		return n
	}
	return sigTerm
}

// terminates reports whether a signal's default action ends a process.
func terminates(sig syscall.Signal) bool {
	switch sig {
	case 17, 18, 19, 20, 21, 22, 23, 28: // CHLD CONT STOP TSTP TTIN TTOU URG WINCH
		return false
	}
	return sig > 0
}
