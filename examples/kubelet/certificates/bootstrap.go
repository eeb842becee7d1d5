package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
)

// checkBootstrap returns an error if the client has no kubeconfig and cannot get one. An expired
// certificate is no such error, because it may be replaced.
func (r *Rotator) checkBootstrap() error {
	err := r.cfg.Client.Err()
	if r.cfg.Bootstrap == "" || err == nil || errors.Is(err, apiserver.ErrExpired) {
		return nil
	}
	_, err = r.kubeconfig()
	return err
}

// lost returns the reason why the client needs a new kubeconfig, or nil.
func (r *Rotator) lost() error {
	if r.cfg.Bootstrap == "" {
		return nil
	}
	return r.cfg.Client.Err()
}

// untilLost returns the time until the client's certificate ends, if bootstrap can replace it.
func (r *Rotator) untilLost() time.Duration {
	if left := time.Until(r.cfg.Client.Expires()); r.cfg.Bootstrap != "" && left > 0 {
		return left
	}
	return farFuture
}

// bootstrap requests a certificate with the bootstrap kubeconfig, unless the store has a valid one,
// and writes the client's kubeconfig.
func (r *Rotator) bootstrap(ctx context.Context) error {
	text, err := r.kubeconfig()
	if err != nil {
		return fmt.Errorf("%w; it cannot be replaced: %w", r.cfg.Client.Err(), err)
	}
	stored := r.Current()
	isNew := stored == nil || lacks(stored.Leaf, r.cfg.Template()) != ""
	if isNew {
		client, err := r.cfg.Client.Using(r.cfg.Bootstrap)
		if err != nil {
			return err
		}
		request := func(ctx context.Context) error { return r.request(ctx, client) }
		if err := run.All(ctx, client.Run, request); err != nil || ctx.Err() != nil {
			return err
		}
	}
	unusable := r.cfg.Client.Err()
	if unusable == nil {
		return nil // the client has read the certificate already
	}
	file := r.cfg.Client.Kubeconfig()
	if now, err := readFile(file); err == nil && bytes.Equal(now, text) {
		if isNew {
			return nil // the client will read it
		}
		return unusable
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	r.cfg.Logger.Info("writing the kubeconfig", "file", file, "because", unusable)
	return fs.WriteAtomic(file, text, 0o600)
}

// kubeconfig returns a kubeconfig with the server of the bootstrap kubeconfig and the certificate
// of the store.
func (r *Rotator) kubeconfig() ([]byte, error) {
	if _, err := r.cfg.Client.Using(r.cfg.Bootstrap); err != nil { // its error is the clearest
		return nil, err
	}
	from, err := clientcmd.LoadFromFile(r.cfg.Bootstrap)
	if err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(from); err != nil {
		return nil, err
	}
	current, err := filepath.Abs(r.cfg.Store.CurrentPath())
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
