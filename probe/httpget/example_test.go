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

// A prober can be used without a Manager.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.Error(w, "the reason is for the log", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)

	prober, err := httpget.New(httpget.Config{})
	if err != nil {
		log.Fatal(err)
	}
	container := &v1.Container{Name: "app", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: int32(address.Port)}}}
	for _, path := range []string{"/healthz", "/readyz"} {
		result, err := prober.Probe(context.Background(), probe.Target{
			PodIP: address.IP.String(), Container: container, Timeout: 10 * time.Second,
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromString("web")}}},
		})
		fmt.Println(result.Verdict, result.Output, err)
	}
	// Output:
	// Success HTTP status 200 <nil>
	// Failure HTTP status 503 <nil>
}
