package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	certv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/certificates"
	"github.com/podwright/podwright/examples/kubelet/config"
	"github.com/podwright/podwright/examples/kubelet/metrics"
	nodestatus "github.com/podwright/podwright/examples/kubelet/node"
	"github.com/podwright/podwright/examples/kubelet/server"
	"github.com/podwright/podwright/examples/kubelet/server/auth"
	"github.com/podwright/podwright/examples/kubelet/server/nodelogs"
	"github.com/podwright/podwright/internal/run"
)

// api is the kubelet API with its certificates and authorities. It works without a runtime;
// endpoints that need one return 503 until there is a connection.
type api struct {
	handler     http.Handler
	secure      *tls.Config
	certificate func() *tls.Certificate
	parts       []func(context.Context) error // run beside the server
}

// newAPI returns nil without a listener.
func (a *Agent) newAPI(c *cluster) (_ *api, err error) {
	if a.cfg.API == nil {
		return nil, nil
	}
	served := &api{}
	authorities, err := served.newAuthorities(&a.cfg)
	if err != nil {
		return nil, err
	}
	door, err := newAuth(&a.cfg, c, authorities)
	if err != nil {
		return nil, err
	}
	endpoints, err := a.newEndpoints(mayReadLogs(door))
	if err != nil {
		return nil, err
	}
	served.handler = a.cfg.Metrics.Servers.Count(metrics.ReadWrite, door.Handler(endpoints))
	if err = served.openCertificate(&a.cfg, c); err != nil {
		return nil, err
	}
	settings, err := config.TLS(&a.cfg.Kubelet)
	if err != nil {
		return nil, err
	}
	served.secure = settings.Server(served.certificate, authorities)
	return served, nil
}

// run serves until ctx is done. Its error ends the agent.
func (s *api) run(ctx context.Context, cfg *Config) error {
	serve := func(ctx context.Context) error { return server.ServeAPI(ctx, cfg.API, s.secure, s.handler, cfg.Logger) }
	return run.All(ctx, append(s.parts, serve)...)
}

// mayReadLogs reports whether the user of a request has the permission that /containerLogs needs.
func mayReadLogs(door *auth.Auth) func(*http.Request) bool {
	return func(r *http.Request) bool {
		user, ok := auth.UserFrom(r.Context())
		needed, err := auth.AttributesOf(http.MethodGet, &url.URL{Path: "/containerLogs/"})
		return ok && err == nil && door.Authorize(r.Context(), user, needed) == nil
	}
}

func (a *Agent) newEndpoints(mayRead func(*http.Request) bool) (http.Handler, error) {
	k := &a.cfg.Kubelet
	cfg := server.APIConfig{
		Source:      a,
		MayReadLogs: mayRead,
		Containers:  a.connected.handler(func(n *node) http.Handler { return n.sessions }),
		Commands:    a.connected.handler(func(n *node) http.Handler { return n.commands }),
		Debugging:   *k.EnableDebuggingHandlers, Profiling: *k.EnableProfilingHandler,
		Measures: a.Measures(),
		Config:   func() map[string]any { return map[string]any{"kubeletconfig": a.effective()} },
	}
	if a.cfg.Enabled(config.ComponentFlagz) {
		cfg.Flags = a.cfg.Values
	}
	if a.cfg.Enabled(config.ComponentStatusz) {
		cfg.Version = nodestatus.Version
	}
	if *k.EnableDebugFlagsHandler {
		cfg.SetVerbosity = a.cfg.SetVerbosity
	}
	if *k.EnableSystemLogHandler {
		logs, err := nodelogs.New(nodelogs.Config{Root: "/var/log", Query: *k.EnableSystemLogQuery})
		if err != nil {
			return nil, err
		}
		cfg.NodeLogs = logs
	}
	return server.NewAPI(cfg)
}

// effective returns the configuration with the cgroup driver that the runtime reported.
func (a *Agent) effective() *kubeletv1beta1.KubeletConfiguration {
	out := shown(&a.cfg.Kubelet)
	if n, _ := a.connected.get(); n != nil && n.conn.driver != "" {
		out.CgroupDriver = n.conn.driver
	}
	return out
}

// shown returns the configuration for /configz: as upstream, with the values of headers, which may be
// secret. Its readers need a permission for the node. Only a password in a URL is masked.
func shown(k *kubeletv1beta1.KubeletConfiguration) *kubeletv1beta1.KubeletConfiguration {
	out := k.DeepCopy()
	out.TypeMeta = metav1.TypeMeta{Kind: "KubeletConfiguration", APIVersion: kubeletv1beta1.SchemeGroupVersion.String()}
	if address, err := url.Parse(k.StaticPodURL); err == nil {
		out.StaticPodURL = address.Redacted()
	}
	return out
}

func (s *api) newAuthorities(cfg *Config) (func() *x509.CertPool, error) {
	file := cfg.Kubelet.Authentication.X509.ClientCAFile
	if file == "" {
		return nil, nil
	}
	files, err := certificates.NewAuthorities(file, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("authentication.x509.clientCAFile: %w", err)
	}
	s.parts = append(s.parts, files.Run)
	return files.Current, nil
}

// newAuth builds authentication and authorization. Its calls of the API server have rate limits of
// their own, because any client on the network can cause them.
func newAuth(cfg *Config, c *cluster, authorities func() *x509.CertPool) (*auth.Auth, error) {
	k := &cfg.Kubelet
	door := auth.Config{
		NodeName:   cfg.Flags.NodeName,
		ClientCAs:  authorities,
		Anonymous:  *k.Authentication.Anonymous.Enabled,
		Tokens:     auth.Tokens{Enabled: *k.Authentication.Webhook.Enabled, TTL: k.Authentication.Webhook.CacheTTL.Duration},
		Mode:       auth.Mode(k.Authorization.Mode),
		AllowedTTL: k.Authorization.Webhook.CacheAuthorizedTTL.Duration, DeniedTTL: k.Authorization.Webhook.CacheUnauthorizedTTL.Duration,
		Logger: cfg.Logger,
	}
	if c != nil {
		reviews, err := c.client.With(apiserver.Limits{QPS: float32(unlimited(int(*k.KubeAPIQPS))), Burst: int(k.KubeAPIBurst)})
		if err != nil {
			return nil, err
		}
		door.Reviews = reviews
	}
	return auth.New(door)
}

// openCertificate opens the API's certificate: from the API server, from files, or self-signed.
func (s *api) openCertificate(cfg *Config, c *cluster) error {
	k, flags := &cfg.Kubelet, &cfg.Flags
	if k.ServerTLSBootstrap {
		if c == nil {
			return errors.New("serverTLSBootstrap: needs an API server")
		}
		rotator, err := certificates.NewRotator(certificates.RotatorConfig{
			Client: c.client, Signer: certv1.KubeletServingSignerName,
			Store:     certificates.Store{Dir: flags.CertDir, Name: "kubelet-server"},
			Template:  func() *x509.CertificateRequest { return c.servingRequest(flags.NodeName) },
			OnRotated: cfg.Metrics.Certificates.Serving.Rotated, OnError: cfg.Metrics.Certificates.Serving.Failed,
			Logger: cfg.Logger,
		})
		if err != nil {
			return err
		}
		c.onNode(rotator.Wake)
		s.certificate, s.parts = rotator.Current, append(s.parts, rotator.Run)
		return nil
	}
	certFile, keyFile := k.TLSCertFile, k.TLSPrivateKeyFile
	if certFile == "" {
		var err error
		if certFile, keyFile, err = certificates.SelfSigned(flags.CertDir, flags.NodeName); err != nil {
			return err
		}
	}
	files, err := certificates.NewServing(certFile, keyFile, cfg.Logger)
	if err != nil {
		return err
	}
	s.certificate, s.parts = files.Current, append(s.parts, files.Run)
	return nil
}

// servingRequest returns the certificate request for the kubelet API, or nil before the agent has
// seen its Node.
func (c *cluster) servingRequest(name string) *x509.CertificateRequest {
	node := c.thisNode()
	if node == nil {
		return nil
	}
	return certificates.ServingRequest(name, node.Status.Addresses)
}
