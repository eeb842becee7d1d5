// Package certificates keeps the certificates of a node agent: its client certificate for the API
// server and the serving certificate of its own API. Certificates change while the agent runs. So
// each kind has a Run, which follows the changes, and a Current, which returns the newest
// certificate from memory.
//
//	Files        a certificate and its key, or the authorities of clients, from files
//	SelfSigned   creates such files for a server without configured ones
//	Rotator      requests certificates from the API server and renews them in time; it also turns a
//	             bootstrap kubeconfig into the kubeconfig of a node
//	Store        the files of a Rotator: NAME-current.pem links to the newest dated file
//	TLS          protocol versions, cipher suites and curves by their configured names
//
// A server with a certificate of the cluster, for clients with certificates of the authorities in
// clientCAFile:
//
//	authorities, err := certificates.NewAuthorities(clientCAFile, log)
//	serving, err := certificates.NewRotator(certificates.RotatorConfig{
//		Client: client, Signer: certv1.KubeletServingSignerName,
//		Store:    certificates.Store{Dir: "/var/lib/kubelet/pki", Name: "kubelet-server"},
//		Template: func() *x509.CertificateRequest { return certificates.ServingRequest(node, addresses()) },
//	})
//	settings, err := certificates.ParseTLS("VersionTLS12", nil, nil)
//	server := &http.Server{TLSConfig: settings.Server(serving.Current, authorities.Current)}
//	err = run.All(ctx, authorities.Run, serving.Run)
//
// # A certificate's life
//
// A Rotator generates a key, posts a CertificateSigningRequest and waits up to an hour for the
// certificate; then it posts a new request. An issued certificate is stored and used at once. The
// next one is requested after 70 to 90 % of the lifetime. The share is random, so that nodes that
// joined together do not renew together. A renewal starts at once if the certificate lacks a part
// of the template, such as a new address; call Wake after a change of the template. Refusals and
// failures are repeated with growing pauses. An expired certificate is not used: handshakes fail
// until a new one is issued, and the agent continues.
//
// A Rotator stores the key of a request before it posts the request, so that a restarted agent waits
// for the same request. If the store cannot be written, no request is posted.
//
// # The client certificate
//
// An apiserver.Client and a Rotator run beside the pods, which need neither. With renewals
// (rotateCertificates) the client's certificate is, in this order:
//
//  1. the Store's, while it is valid (apiserver.Config.CertificateFile)
//  2. the kubeconfig's own; a certificate for the Store is then requested at once
//  3. a new one, requested with the bootstrap kubeconfig, if the kubeconfig is missing,
//     unusable or expired; the Rotator then writes the kubeconfig
//
// Without renewals, the order is 2, 3. The order is the reference kubelet's. Differences: the
// reference kubelet ends when the certificate has expired and the server responds, and when a
// bootstrap request is denied; this agent continues with its pods, repeats requests, and uses the
// first valid certificate. The reference kubelet also ends at an unusable file in the Store; here it
// is replaced. It renews a certificate from files outside the Store after 70 to 90 % of its lifetime;
// here the Store gets its own at once. An agent whose certificate has expired makes no calls, so
// that it causes no failed authentications.
//
// # Files
//
// A Store has the layout of the reference kubelet, so that both kubelets can use the same files:
// dated files with certificate and key, mode 0600, and a link to the current one. Files and link
// are replaced by renaming, so a kill -9 at any moment leaves a complete pair, old or new. Files
// of other programs are checked once a second. An unusable file is logged, and the previous
// certificate stays in use.
//
// # Metrics
//
// The sources of the reference kubelet's metrics, kubelet_ being their common prefix:
//
//	certificate_manager_client_ttl_seconds              the remaining lifetime of Current
//	certificate_manager_server_ttl_seconds              likewise
//	certificate_manager_server_rotation_seconds         OnRotated: the age of the replaced certificate
//	certificate_manager_client_expiration_renew_errors  OnError: incremented by one
//	server_expiration_renew_errors                      likewise
//
// # Why not client-go/util/certificate
//
// It links the clientset: 180 outside packages that examples/kubelet does not need otherwise, for
// two calls on one kind of object. This package adds none: component-base/cli/flag (TLS names) and
// client-go/util/cert (requests) are linked already.
//
// Runnable example: ExampleServingRequest in example_test.go.
package certificates
