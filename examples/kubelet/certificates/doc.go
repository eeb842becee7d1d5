// Package certificates has the certificates that a node agent shows: to its API server as
// a client, and to those who call it as a server. They change while the agent runs, so
// each is something with a Run that follows it and a Current that answers from memory.
//
//	Files        a certificate and its key, or the authorities of clients, in files
//	SelfSigned   makes such files for a server that was given none
//	Rotator      asks the API server for a certificate, and for the next one in time
//	Bootstrap    turns a bootstrap kubeconfig into the kubeconfig of a node
//	Store        the files of a Rotator: NAME-current.pem leads to the newest dated one
//	TLS          protocol versions, cipher suites and curves by their configured names
//
// A server whose certificate is signed by the cluster, and whose clients are known by it:
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
// A Rotator makes a key, posts a CertificateSigningRequest and waits until somebody
// approves it, for an hour, then it asks anew. What is approved is stored and in force at
// once. The next one is asked for when 70 to 90 % of its life is over: the share is drawn
// for each certificate, so that nodes which joined together do not return together. It is
// asked for at once when the template wants what the certificate lacks, such as a new
// address; who changes the template calls Wake. Refusals and failures are repeated after
// pauses that grow. A certificate whose time is over is none: handshakes fail until there
// is another one, and the agent goes on.
//
// The client certificate needs nobody who hands it on: the kubeconfig names
// kubelet-client-current.pem, and an apiserver.Client follows that, closes its
// connections, and ends its Run when the certificate has expired.
//
// # Files
//
// A Store has the layout of the reference kubelet, so that either finds what the other
// has left: dated files with certificate and key in one, mode 0600, and a link to the one
// in force. Files and link are replaced by renaming: kill -9 at any moment leaves a pair
// that was whole, the old or the new one. Files that others write are looked at once a
// second; what cannot be used is logged, and the one before stays in force.
//
// # What a metric can tell
//
// For the names of the reference kubelet, kubelet_certificate_manager_ and then:
//
//	client_ttl_seconds, server_ttl_seconds              the remaining life of Current
//	server_rotation_seconds                             OnRotated: how long the one before was in use
//	client_expiration_renew_errors, server_...          OnError: one more
//
// # Why not client-go/util/certificate
//
// It links the clientset: 180 packages from outside that examples/kubelet does not have
// otherwise, for two calls about one kind of object; this package adds none. What
// component-base/cli/flag knows of TLS names, and client-go/util/cert of requests, is used:
// both were linked before.
//
// An example that runs: ExampleServingRequest in example_test.go.
package certificates
