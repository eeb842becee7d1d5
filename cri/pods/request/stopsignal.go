package request

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopSignal is the runtime's form of a signal's name: SIGNAL_SIGRTMINPLUS3 is
// SIGRTMIN+3. It tells whether there is such a signal.
func stopSignal(name v1.Signal) (runtimeapi.Signal, bool) {
	if !strings.HasPrefix(string(name), "SIG") {
		return 0, false
	}
	text := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(name))
	signal, ok := runtimeapi.Signal_value["SIGNAL_"+text]
	return runtimeapi.Signal(signal), ok
}
