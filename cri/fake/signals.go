package fake

import (
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

// signalNumber gives the Linux number of a signal by its name without "SIG", or
// zero. Real-time signals are not in it.
func signalNumber(name string) syscall.Signal {
	switch name {
	case "HUP":
		return 1
	case "INT":
		return 2
	case "QUIT":
		return 3
	case "ILL":
		return 4
	case "TRAP":
		return 5
	case "ABRT", "IOT":
		return 6
	case "BUS":
		return 7
	case "FPE":
		return 8
	case "KILL":
		return sigKill
	case "USR1":
		return 10
	case "SEGV":
		return 11
	case "USR2":
		return 12
	case "PIPE":
		return 13
	case "ALRM":
		return 14
	case "TERM":
		return sigTerm
	default:
		return lateSignalNumber(name)
	}
}

func lateSignalNumber(name string) syscall.Signal {
	late := []string{
		"STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
		"XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
	}
	for i, known := range late {
		if known == name {
			return syscall.Signal(16 + i)
		}
	}
	switch name {
	case "CLD":
		return 17
	case "POLL":
		return 29
	}
	return 0
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
