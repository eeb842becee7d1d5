package certificates_test

import (
	"crypto/x509"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/examples/kubelet/certificates"
)

// The request for a serving certificate depends on the node's addresses.
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
