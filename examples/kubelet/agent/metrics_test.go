package agent

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/cri/fake"
)

// A10: a runtime that does not report its cgroup driver is counted as losing support.
func TestLosingSupport(t *testing.T) {
	for _, lacking := range []bool{true, false} {
		inWorld(t, fake.Config{}, func(w *world) {
			w.lacking = lacking
			w.start()
			told := strings.Contains(body(w.agent.in.cfg.Metrics.Handler(), "/"), "\nkubelet_cri_losing_support{version=\"1.37.0\"} 1\n")
			require.Equal(w.t, lacking, told)
		})
	}
}

// Metrics count all stages of a pod. A scrape reads current values, which are absent before and
// between runs.
func TestMetrics(t *testing.T) {
	n := newPodsNode(t, fake.Config{}, "p")
	a, err := New(n.cfg)
	require.NoError(t, err)
	scrape := func(h http.Handler) string { return "\n" + body(h, "/") }
	require.Contains(t, scrape(a.Measures().Metrics), "\nkubelet_running_pods 0\n", "before the pod runs")
	for range 2 { // the second run continues the counts
		running(t, a, func() {
			require.EventuallyWithT(t, func(t *assert.CollectT) {
				text := scrape(a.Measures().Metrics)
				for _, series := range []string{
					`kubelet_desired_pods{static="true"} 1`, `kubelet_active_pods{static="true"} 1`, `kubelet_running_pods 1`, `kubelet_running_containers{container_state="running"} 1`,
					`kubelet_working_pods{config="desired",lifecycle="sync",static="true"} 1`, `kubelet_started_pods_total 1`, `kubelet_started_containers_total{container_type="container"} 1`,
					`kubelet_run_podsandbox_duration_seconds_count{runtime_handler=""} 1`,
					`kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="always",pull_required="true"} 1`, `kubelet_node_name{node="n"} 1`,
				} {
					assert.Contains(t, text, "\n"+series+"\n")
				}
				for _, name := range []string{
					"kubelet_pleg_last_seen_seconds", "kubelet_pod_start_duration_seconds_count", "kubelet_pleg_relist_duration_seconds_count", `kubelet_pod_worker_duration_seconds_count{operation_type="create"}`,
					`podwright_status_call_duration_seconds_count{call="receive",sink="checkpoint"}`,
				} {
					assert.Contains(t, text, "\n"+name+" ")
				}
			}, time.Minute, 10*time.Millisecond)
			require.NotContains(t, scrape(a.Measures().Metrics), "\nkubelet_pod_start_duration_seconds_count 0\n")
			require.Contains(t, scrape(a.Measures().SLIs), `kubernetes_healthcheck{name="runtime",type="healthz"} 1`)
		})
		require.Contains(t, scrape(a.Measures().Metrics), "\nkubelet_running_pods 0\n")
		require.Contains(t, scrape(a.Measures().SLIs), `kubernetes_healthcheck{name="runtime",type="healthz"} 0`)
	}
	second := n.cfg
	second.Metrics = a.cfg.Metrics
	_, err = New(second)
	require.ErrorContains(t, err, "Config.Metrics")
	require.Equal(t, 1, strings.Count(scrape(a.Measures().Metrics), "\nkubelet_node_name{"))
}
