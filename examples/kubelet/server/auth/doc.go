// Package auth decides who may call the kubelet's HTTPS server: who somebody is, what a
// request asks for, and whether that is allowed.
//
//	a, err := auth.New(auth.Config{
//		NodeName:  name,
//		ClientCAs: authorities.Current, // of package certificates: follows the file
//		Reviews:   client,              // an apiserver.Client with limits of its own
//		Tokens:    auth.Tokens{Enabled: true},
//		Mode:      auth.Webhook,
//	})
//	server := &http.Server{Handler: a.Handler(endpoints), TLSConfig: ...}
//
// # Who somebody is
//
// A client certificate is verified at each request, so that neither a connection that was
// opened long ago nor a resumed session outlives the authority that vouched for it. The
// common name is the user, the organizations are the groups. A bearer token, of the header
// Authorization or of a websocket's subprotocol, is shown to the API server (TokenReview).
// The certificate counts first; who has shown neither is system:anonymous, if that is
// allowed. Credentials that are wrong are never anonymous: 401.
//
// # What a request asks for
//
// AttributesOf maps method and path to a verb on a subresource of this node; see there for
// the table. Who may do any one of the subresources of a request may go on: those of
// KubeletFineGrainedAuthz (KEP-2862) fall back to proxy. A path that a router might read
// otherwise than the table does (dot segments, encoded slashes, double encodings) is of no
// subresource and refused with 400, whoever asks.
//
// # Whether that is allowed
//
// With Webhook the API server decides (SubjectAccessReview), with AlwaysAllow nobody does.
// Answers are kept: 2 min those about tokens, 5 min what is allowed and 30 s what is not,
// by default. Errors are not kept, and nobody gets in because of one: a token that cannot
// be reviewed is 401, an access that cannot be is 500.
//
// # What the caller does
//
// Reviews cost calls of the API server, and anybody on the network can cause them: give
// the reviews a client with limits of its own (apiserver.Client.With), so that the agent's
// other calls do not wait. TLS asks for client certificates without verifying them
// (tls.RequestClientCert, as package certificates sets it up).
//
// k8s.io/apiserver has all this as delegating authenticators and authorizers. They link
// the clientset, gRPC tracing, CEL and the audit machinery; what is used of them here is
// two calls with a cache.
//
// An example that runs: Example in example_test.go.
package auth
