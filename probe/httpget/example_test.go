package httpget_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/httpget"
)

// A prober works without a Manager. DialContext connects it to its pod, a virtual machine without
// an address on this host.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.UserAgent(), r.Host)
		if r.URL.Path != "/healthz" {
			http.Error(w, "the reason is for the log", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	prober, err := httpget.New(httpget.Config{
		Version: "1.35",
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	container := &v1.Container{Name: "app", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}}
	for _, path := range []string{"/healthz", "/readyz"} {
		result, err := prober.Probe(context.Background(), probe.Target{
			PodIP: "192.0.2.7", Container: container, Timeout: 10 * time.Second,
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromString("web")}}},
		})
		fmt.Println(result.Verdict, result.Output, err)
	}
	// Output:
	// kube-probe/1.35 192.0.2.7:8080
	// Success HTTP status 200 <nil>
	// kube-probe/1.35 192.0.2.7:8080
	// Failure HTTP probe failed with statuscode: 503 <nil>
}
