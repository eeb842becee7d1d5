package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/pleg"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/probe"
)

// BenchmarkScrape is what a scrape costs with 100 pods that have three probes each.
func BenchmarkScrape(b *testing.B) {
	m := newMetrics(b)
	var states []podworkers.PodState
	var pods []*v1.Pod
	var observed []pleg.ObservedPod
	for i := range 100 {
		uid := types.UID(fmt.Sprint("u", i))
		pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
		states = append(states, podworkers.PodState{UID: uid, State: podworkers.StateSyncing})
		observed = append(observed, pleg.ObservedPod{Sandboxes: []pleg.ObservedSandbox{{State: pleg.SandboxReady}}, Containers: []pleg.ObservedContainer{{State: pleg.StateRunning}}})
		for _, kind := range []probe.Type{probe.Liveness, probe.Readiness, probe.Startup} {
			m.Probes.probed(probe.Probed{Series: probe.Series{Type: kind, UID: uid, Namespace: "ns", Pod: fmt.Sprint("p", i), Container: "c"}, Verdict: probe.Success, Took: time.Millisecond})
		}
	}
	for i := range 30 {
		m.Runtime.Called(cri.CallInfo{Operation: fmt.Sprint("operation", i)})
	}
	desired := func() []*v1.Pod { return pods }
	require.NoError(b, m.Follow(Live{
		Workers: func() []podworkers.PodState { return states }, Desired: desired, Active: desired, Mirrors: desired,
		Observed: func() []pleg.ObservedPod { return observed }, ListedAt: time.Now,
		Status: func(types.UID) *v1.PodStatus { return &v1.PodStatus{} }, Health: func() map[string]error { return map[string]error{"ping": nil} },
	}))
	for path, h := range map[string]http.Handler{"metrics": m.Handler(), "probes": m.ProbesHandler(), "slis": m.SLIsHandler()} {
		for _, encoding := range []string{"plain", "gzip"} {
			b.Run(path+"/"+encoding, func(b *testing.B) {
				r := httptest.NewRequest("GET", "/"+path, nil)
				if encoding == "gzip" {
					r.Header.Set("Accept-Encoding", encoding)
				}
				for b.Loop() {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					b.SetBytes(int64(w.Body.Len()))
				}
			})
		}
	}
}
