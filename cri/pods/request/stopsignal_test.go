package request

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestStopSignal(t *testing.T) {
	for name, want := range map[v1.Signal]runtimeapi.Signal{
		v1.SIGUSR1:         runtimeapi.Signal_SIGNAL_SIGUSR1,
		v1.SIGTERM:         runtimeapi.Signal_SIGNAL_SIGTERM,
		v1.SIGRTMIN:        runtimeapi.Signal_SIGNAL_SIGRTMIN,
		v1.SIGRTMINPLUS3:   runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3,
		v1.SIGRTMAXMINUS14: runtimeapi.Signal_SIGNAL_SIGRTMAXMINUS14,
	} {
		got, ok := stopSignal(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []v1.Signal{"", "SIGNONE", "TERM", "sigterm", "RUNTIME_DEFAULT", "SIGNAL_SIGTERM", "15"} {
		got, ok := stopSignal(name)
		require.False(t, ok, name)
		require.Zero(t, got, name)
	}
}
