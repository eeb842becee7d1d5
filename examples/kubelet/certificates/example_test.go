package certificates_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/certificates"
)

// A server that was given no certificate makes one, and follows what is put in its place.
func ExampleSelfSigned() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	certFile, keyFile, err := certificates.SelfSigned(dir, "worker-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	serving, err := certificates.NewServing(certFile, keyFile, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	settings, err := certificates.ParseTLS("VersionTLS13", nil, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serving.Run(ctx) }()
	client, server := net.Pipe()
	go func() { _ = tls.Server(server, settings.Server(serving.Current, nil)).Handshake() }()
	conn := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	fmt.Println(conn.Handshake())
	fmt.Println(conn.ConnectionState().PeerCertificates[0].DNSNames)
	_, _ = client.Close(), server.Close()
	stop()
	fmt.Println(<-done)
	// Output:
	// <nil>
	// [worker-1]
	// <nil>
}

// What a node asks the cluster for depends on its addresses.
func ExampleServingRequest() {
	show := func(r *x509.CertificateRequest) {
		if r == nil {
			fmt.Println("nothing yet")
			return
		}
		fmt.Println(r.Subject, r.DNSNames, r.IPAddresses)
	}
	name := v1.NodeAddress{Type: v1.NodeHostName, Address: "worker-1"}
	show(certificates.ServingRequest("worker-1", []v1.NodeAddress{name}))
	show(certificates.ServingRequest("worker-1", []v1.NodeAddress{name, {Type: v1.NodeInternalIP, Address: "10.0.0.1"}}))
	// Output:
	// nothing yet
	// CN=system:node:worker-1,O=system:nodes [worker-1] [10.0.0.1]
}
