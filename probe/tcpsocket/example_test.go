package tcpsocket_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podwright/podwright/probe"
	"github.com/podwright/podwright/probe/tcpsocket"
)

// A prober can be used without a Manager.
func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	address := listener.Addr().(*net.TCPAddr)
	prober := tcpsocket.New(tcpsocket.Config{})
	ask := func(port intstr.IntOrString) {
		result, err := prober.Probe(context.Background(), probe.Target{
			PodIP: address.IP.String(), Container: &v1.Container{Name: "app"}, Timeout: 10 * time.Second,
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: port}}},
		})
		fmt.Println(result.Verdict, err)
	}
	ask(intstr.FromInt(address.Port))
	listener.Close()
	ask(intstr.FromInt(address.Port))
	ask(intstr.FromString("db"))
	// Output:
	// Success <nil>
	// Failure <nil>
	// Unknown port "db" is neither a number from 1 to 65535 nor the name of a port of the container
}
