package tcpsocket_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/tcpsocket"
)

// A prober works without a Manager. DialContext connects it to its pod, a virtual machine without
// an address on this host.
func Example() {
	listening := true
	prober := tcpsocket.New(tcpsocket.Config{DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
		fmt.Println(network, address)
		if !listening {
			return nil, syscall.ECONNREFUSED
		}
		here, there := net.Pipe()
		return here, there.Close()
	}})
	ask := func(port intstr.IntOrString) {
		result, err := prober.Probe(context.Background(), probe.Target{
			PodIP: "192.0.2.7", Container: &v1.Container{Name: "app"}, Timeout: 10 * time.Second,
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: port}}},
		})
		fmt.Println(result.Verdict, err)
	}
	ask(intstr.FromInt32(5432))
	listening = false
	ask(intstr.FromInt32(5432))
	ask(intstr.FromString("db"))
	// Output:
	// tcp 192.0.2.7:5432
	// Success <nil>
	// tcp 192.0.2.7:5432
	// Failure <nil>
	// Unknown port "db" is neither a number from 1 to 65535 nor the name of a port of the container
}
