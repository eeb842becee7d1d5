package probe_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/probetest"
)

// FuzzAddPod checks that for every spec a probe is rejected with its field's name or has a valid
// worker, and that a valid probe of the same pod always works.
func FuzzAddPod(f *testing.F) {
	f.Add(int32(0), int32(1), int32(10), int32(1), int32(3), byte(0), byte(1), "80")
	f.Add(int32(-1), int32(-1), int32(-1), int32(-1), int32(-1), byte(2), byte(2), "")
	f.Add(int32(math.MaxInt32), int32(math.MaxInt32), int32(math.MaxInt32), int32(1), int32(math.MaxInt32), byte(2), byte(4), "web")
	f.Add(int32(math.MinInt32), int32(0), int32(0), int32(2), int32(0), byte(1), byte(15), "\x00")
	f.Fuzz(func(t *testing.T, delay, timeout, period, successes, failures int32, typ, handlers byte, port string) {
		bad := &v1.Probe{InitialDelaySeconds: delay, TimeoutSeconds: timeout, PeriodSeconds: period, SuccessThreshold: successes, FailureThreshold: failures}
		for i, h := range []probe.Handler{probe.Exec, probe.HTTPGet, probe.TCPSocket, probe.GRPC} {
			if handlers&(1<<i) == 0 {
				continue
			}
			switch one := handler(h); h {
			case probe.Exec:
				bad.Exec = one.Exec
			case probe.HTTPGet:
				one.HTTPGet.Port.Type, one.HTTPGet.Port.StrVal = 1, port
				bad.HTTPGet = one.HTTPGet
			case probe.TCPSocket:
				one.TCPSocket.Port.IntVal = delay
				bad.TCPSocket = one.TCPSocket
			case probe.GRPC:
				one.GRPC.Port = period
				bad.GRPC = one.GRPC
			}
		}
		prober := &probetest.Prober{}
		m, err := probe.New(probe.Config{
			Probers: map[probe.Handler]probe.Prober{probe.Exec: prober, probe.HTTPGet: prober, probe.TCPSocket: prober, probe.GRPC: prober},
			Status:  func(types.UID) *v1.PodStatus { return nil },
		})
		require.NoError(t, err)
		pod := podOf("u", container("bad", probes{probe.Type(typ % 3): bad}), container("good", probes{probe.Liveness: every(10)}))
		err = m.AddPod(pod)
		workers := m.Workers("u")
		if faults := probe.Validate(pod); len(faults) > 0 {
			for _, fault := range faults {
				require.ErrorContains(t, err, fault.Error())
				require.Contains(t, fault.Error(), "spec.containers[0].")
			}
			require.Len(t, workers, 1)
			return
		}
		require.NoError(t, err)
		require.Len(t, workers, 2)
		require.GreaterOrEqual(t, workers[0].Period, time.Second)
		require.GreaterOrEqual(t, workers[0].Timeout, time.Second)
		require.False(t, workers[0].Next.After(time.Now().Add(workers[0].Period)))
	})
}
