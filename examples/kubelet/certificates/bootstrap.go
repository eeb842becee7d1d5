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

// BootstrapConfig configures Bootstrap. Kubeconfig, From, Store, NodeName and UserAgent
// are required.
type BootstrapConfig struct {
	// Kubeconfig is the file that shall be there (--kubeconfig).
	Kubeconfig string
	// From is a kubeconfig of somebody who may ask for the certificate of a node
	// (--bootstrap-kubeconfig).
	From string
	// Store keeps the certificate; its name is kubelet-client.
	Store Store
	// NodeName is the node's, UserAgent how the agent calls itself at the server.
	NodeName, UserAgent string
	// Dial opens connections; nil means those of the node's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger is told what happens; nil discards.
	Logger *slog.Logger
}

// keyFile has the key of a request until there is a certificate, so that an agent that is
// started again finds its request.
const keyFile = "kubelet-client.key.tmp"

// Bootstrap sees to it that there is a kubeconfig that can be used. If there is none, or
// its certificate has expired, it asks with the bootstrap kubeconfig for a certificate,
// stores it, and writes a kubeconfig that names it and has the server of the bootstrap
// kubeconfig. It returns when there is one, when the request was refused (ErrDenied,
// ErrFailed), when an hour has passed, or when ctx ends. It can be killed and called again
// at any point: key, request and certificate of before are used.
func Bootstrap(ctx context.Context, cfg BootstrapConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	_, err := apiserver.New(cfg.client(cfg.Kubeconfig))
	if err == nil {
		return nil
	}
	cfg.Logger.Info("the kubeconfig cannot be used: making one from the bootstrap kubeconfig", "err", err)
	text, err := cfg.kubeconfig()
	if err != nil {
		return err
	}
	if !cfg.hasCertificate() {
		if err := cfg.ask(ctx); err != nil {
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

// hasCertificate tells whether only the kubeconfig is missing.
func (cfg *BootstrapConfig) hasCertificate() bool {
	c, err := cfg.Store.Current()
	return err == nil && !expired(c, time.Now()) && lacks(c.Leaf, ClientRequest(cfg.NodeName)) == ""
}

// ask asks for a certificate until it is there.
func (cfg *BootstrapConfig) ask(ctx context.Context) error {
	client, err := apiserver.New(cfg.client(cfg.From))
	if err != nil {
		return err
	}
	key, err := cfg.key()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("nobody has approved it within %s", patience))
	defer cancel()
	return run.All(ctx, client.Run, func(ctx context.Context) error {
		return cfg.repeat(ctx, asker{client.SigningRequests(), certv1.KubeAPIServerClientKubeletSignerName, cfg.Logger}, key)
	})
}

func (cfg *BootstrapConfig) repeat(ctx context.Context, a asker, key crypto.Signer) error {
	for failures := 0; ; failures++ {
		certPEM, err := a.ask(ctx, key, ClientRequest(cfg.NodeName))
		switch {
		case err == nil:
			return cfg.store(certPEM, key)
		case errors.Is(err, ErrDenied) || errors.Is(err, ErrFailed):
			return err
		case ctx.Err() == nil:
			cfg.Logger.Warn("there is no client certificate; trying again", "err", err)
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
	// With the same key the same request would be found again.
	if err := os.Remove(filepath.Join(cfg.Store.Dir, keyFile)); err != nil && !os.IsNotExist(err) {
		return errors.Join(unusable, err)
	}
	return unusable
}

// key is that of the request of before, or a new one.
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

// kubeconfig is one with the server of the bootstrap kubeconfig and the certificate of the
// store.
func (cfg *BootstrapConfig) kubeconfig() ([]byte, error) {
	if _, err := apiserver.New(cfg.client(cfg.From)); err != nil { // says best what is wrong with it
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
