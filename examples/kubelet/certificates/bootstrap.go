package certificates

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

// BootstrapConfig configures Bootstrap. Kubeconfig, From, Store, NodeName and UserAgent are
// required.
type BootstrapConfig struct {
	// Kubeconfig is the path of the kubeconfig to create (--kubeconfig).
	Kubeconfig string
	// From is the path of a kubeconfig whose user may request node client certificates
	// (--bootstrap-kubeconfig).
	From string
	// Store keeps the certificate. Its name is kubelet-client.
	Store Store
	// NodeName is the node's name. UserAgent is the User-Agent header of requests.
	NodeName, UserAgent string
	// Dial opens connections. Default: the node's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger receives the log. Default: discard.
	Logger *slog.Logger
}

// keyFile has the key of a pending request, so that a restarted agent finds its request.
const keyFile = "kubelet-client.key.tmp"

// Bootstrap creates cfg.Kubeconfig if it is missing or unusable, for example because its
// certificate has expired. It requests a certificate with the bootstrap kubeconfig, stores it, and
// writes a kubeconfig with the bootstrap server and the path of the certificate.
//
// Bootstrap blocks until the kubeconfig is usable, the request is refused (ErrDenied, ErrFailed),
// an hour has passed, or ctx is done. It is safe to kill it at any point and call it again: it
// continues with the existing key, request and certificate.
func Bootstrap(ctx context.Context, cfg BootstrapConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	_, err := apiserver.New(cfg.client(cfg.Kubeconfig))
	if err == nil {
		return nil
	}
	cfg.Logger.Info("kubeconfig not usable; creating it from the bootstrap kubeconfig", "err", err)
	text, err := cfg.kubeconfig()
	if err != nil {
		return err
	}
	if !cfg.hasCertificate() {
		if err := cfg.requestCertificate(ctx); err != nil {
			return fmt.Errorf("bootstrap: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Kubeconfig), 0o750); err != nil {
		return err
	}
	return fs.WriteAtomic(cfg.Kubeconfig, text, 0o600)
}

func (cfg *BootstrapConfig) check() error {
	f := fields.Of("certificates: BootstrapConfig")
	f.Required("Kubeconfig", cfg.Kubeconfig)
	f.Required("From", cfg.From)
	f.Required("Store.Dir", cfg.Store.Dir)
	f.Required("Store.Name", cfg.Store.Name)
	f.Required("NodeName", cfg.NodeName)
	f.Required("UserAgent", cfg.UserAgent)
	fields.Logger(&cfg.Logger)
	return f.Err()
}

func (cfg *BootstrapConfig) client(kubeconfig string) apiserver.Config {
	return apiserver.Config{Kubeconfig: kubeconfig, UserAgent: cfg.UserAgent, Dial: cfg.Dial, Logger: cfg.Logger}
}

// hasCertificate reports whether the store has a valid certificate, so that only the kubeconfig is
// missing.
func (cfg *BootstrapConfig) hasCertificate() bool {
	c, err := cfg.Store.Current()
	return err == nil && !expired(c, time.Now()) && lacks(c.Leaf, ClientRequest(cfg.NodeName)) == ""
}

func (cfg *BootstrapConfig) requestCertificate(ctx context.Context) error {
	client, err := apiserver.New(cfg.client(cfg.From))
	if err != nil {
		return err
	}
	key, err := cfg.key()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, approvalTimeout, fmt.Errorf("not approved within %s", approvalTimeout))
	defer cancel()
	return run.All(ctx, client.Run, func(ctx context.Context) error {
		return cfg.repeat(ctx, requester{client.SigningRequests(), certv1.KubeAPIServerClientKubeletSignerName, cfg.Logger}, key)
	})
}

func (cfg *BootstrapConfig) repeat(ctx context.Context, a requester, key crypto.Signer) error {
	for failures := 0; ; failures++ {
		certPEM, err := a.obtain(ctx, key, ClientRequest(cfg.NodeName))
		switch {
		case err == nil:
			return cfg.store(certPEM, key)
		case errors.Is(err, ErrDenied) || errors.Is(err, ErrFailed):
			return err
		case ctx.Err() == nil:
			cfg.Logger.Warn("cannot obtain a client certificate; trying again", "err", err)
		}
		if !run.Sleep(ctx, wait.Jitter(pauseAfter(failures, err), 0.1)) {
			return errors.Join(run.EndOf(ctx), err)
		}
	}
}

func (cfg *BootstrapConfig) store(certPEM []byte, key crypto.Signer) error {
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	unusable := check(certPEM, keyPEM, ClientRequest(cfg.NodeName))
	if unusable == nil {
		if _, err := cfg.Store.Update(certPEM, keyPEM); err != nil {
			return err
		}
	}
	// The same key would lead to the same request again.
	if err := os.Remove(filepath.Join(cfg.Store.Dir, keyFile)); err != nil && !os.IsNotExist(err) {
		return errors.Join(unusable, err)
	}
	return unusable
}

// key returns the key of an earlier request, or a new one.
func (cfg *BootstrapConfig) key() (crypto.Signer, error) {
	file := filepath.Join(cfg.Store.Dir, keyFile)
	if data, err := os.ReadFile(file); err == nil {
		if key, err := keyutil.ParsePrivateKeyPEM(data); err == nil {
			if signer, ok := key.(crypto.Signer); ok {
				return signer, nil
			}
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Store.Dir, 0o750); err != nil {
		return nil, err
	}
	return key, fs.WriteAtomic(file, text, 0o600)
}

// kubeconfig returns a kubeconfig with the server of the bootstrap kubeconfig and the certificate
// of the store.
func (cfg *BootstrapConfig) kubeconfig() ([]byte, error) {
	if _, err := apiserver.New(cfg.client(cfg.From)); err != nil { // its error is the clearest
		return nil, err
	}
	from, err := clientcmd.LoadFromFile(cfg.From)
	if err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(from); err != nil {
		return nil, err
	}
	current, err := filepath.Abs(cfg.Store.CurrentPath())
	if err != nil {
		return nil, err
	}
	return clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{"default-cluster": from.Clusters[from.Contexts[from.CurrentContext].Cluster]},
		AuthInfos:      map[string]*api.AuthInfo{"default-auth": {ClientCertificate: current, ClientKey: current}},
		Contexts:       map[string]*api.Context{"default-context": {Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}},
		CurrentContext: "default-context",
	})
}
