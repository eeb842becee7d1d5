// Package auth authenticates and authorizes requests to the kubelet's HTTPS server.
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
// An Auth is safe for concurrent use.
//
// # Authentication
//
// A client certificate is verified at each request, so that old connections and resumed sessions
// cannot outlive its authority. The common name is the user, the organizations are the groups. A
// bearer token, from the Authorization header or a websocket subprotocol, is verified by the API
// server (TokenReview). A valid certificate takes precedence over a token. A request without
// credentials is system:anonymous, if that is enabled. A request with invalid credentials fails
// with 401; it is never anonymous.
//
// # Attributes
//
// AttributesOf maps method and path to a verb on subresources of this node; its comment has the
// table. Permission for one of the subresources is enough: the fine-grained ones of
// KubeletFineGrainedAuthz (KEP-2862) fall back to proxy. A path that a router may interpret
// differently (dot segments, encoded slashes, double encoding) has no attributes and fails with
// 400.
//
// # Authorization
//
// With Webhook the API server decides (SubjectAccessReview). AlwaysAllow allows all authenticated
// requests. Decisions are cached: by default 2 min for tokens, 5 min for allowed and 30 s for
// denied access. Errors are not cached and never grant access: a failed token review is 401, a
// failed access review is 500.
//
// # Setup
//
// Any client on the network can cause reviews. Give them a client with its own limits
// (apiserver.Client.With), so that the agent's other calls do not wait. TLS must request client
// certificates without verifying them (tls.RequestClientCert, as in package certificates).
//
// k8s.io/apiserver has delegating authenticators and authorizers for this purpose. They link the
// clientset, gRPC tracing, CEL and the audit machinery, while this package needs only two cached
// calls.
//
// An example that runs: Example in example_test.go.
package auth
