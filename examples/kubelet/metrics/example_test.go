package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/kubelet/metrics"
	"github.com/podwright/podwright/podworkers"
)

// Events are counted when they happen. Current state is read at the scrape.
func Example() {
	counted, err := metrics.New(metrics.Config{NodeName: "n", Version: "v1.36.3"})
	if err != nil {
		panic(err)
	}
	client := cri.ClientConfig{OnCall: counted.Runtime.Called}
	client.OnCall(cri.CallInfo{Operation: "run_podsandbox", Duration: 120 * time.Millisecond})
	workers := func() []podworkers.PodState { return []podworkers.PodState{{State: podworkers.StateSyncing}} }
	if err := counted.Follow(metrics.Live{Workers: workers}); err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	counted.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "kubelet_runtime_operations_total") || strings.HasPrefix(line, "kubelet_working_pods") && strings.HasSuffix(line, " 1\n") {
			fmt.Print(line)
		}
	}
	// Output:
	// kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1
	// kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1
}
