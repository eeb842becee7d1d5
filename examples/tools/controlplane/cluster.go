package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Environment variables of the command.
const (
	kubeconfigVariable = "KUBECONFIG"
	folderVariable     = "PODWRIGHT_CONTROLPLANE"
)

// serviceRange is the range of cluster IPs. The first is the API server's.
const serviceRange = "10.32.0.0/16"

type cluster struct {
	options    options
	builder    *builder
	report     *reporter
	dir        string
	port       int
	authority  *authority
	client     *http.Client // with the administrator's credentials
	components map[string]*component
	control    *control
	watchdog   *watchdog
	died       chan error
}

// newCluster creates the folder with certificates and kubeconfigs. It starts no component, only
// the watchdog that removes the folder.
func newCluster(o options, b *builder, report *reporter) (*cluster, error) {
	dir, err := os.MkdirTemp("", "controlplane-")
	if err != nil {
		return nil, err
	}
	c := &cluster{options: o, builder: b, report: report, dir: dir, died: make(chan error, 1)}
	if c.watchdog, err = startWatchdog(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }
func (c *cluster) url() string             { return fmt.Sprintf("https://127.0.0.1:%d", c.port) }

func (c *cluster) logs() string {
	if c.options.logs != "" {
		return c.options.logs
	}
	return c.path("logs")
}

func (c *cluster) prepare() error {
	if err := os.MkdirAll(c.logs(), 0o755); err != nil {
		return err
	}
	var err error
	if c.port, err = freePort(); err != nil {
		return err
	}
	if c.authority, err = newAuthority(time.Now()); err != nil {
		return err
	}
	if err := c.writeCertificates(); err != nil {
		return err
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	c.components = map[string]*component{}
	for name, args := range c.arguments() {
		c.components[name] = &component{
			name: name, args: args, dir: c.dir, log: filepath.Join(c.logs(), name+".log"),
			program: func(ctx context.Context) (string, error) { return c.builder.program(ctx, name) },
			ready:   func(context.Context) error { return nil },
			died:    c.componentDied,
		}
	}
	socket := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.path(etcdSocket))
		},
	}}
	c.components[etcd].ready = func(ctx context.Context) error { return checkOK(ctx, socket, "http://etcd/health") }
	c.components[apiServer].ready = func(ctx context.Context) error { return checkOK(ctx, c.client, c.url()+"/readyz") }
	// The API server rejects pods before their service account exists.
	c.components[controllerManager].ready = func(ctx context.Context) error {
		return checkOK(ctx, c.client, c.url()+"/api/v1/namespaces/default/serviceaccounts/default")
	}
	return nil
}

// freePort returns an unused port. The API server must keep its port across restarts, so it cannot
// choose one itself. The port is below the ones that Linux chooses, from 32768, because another
// program would get one of those while the API server does not run.
func freePort() (port int, err error) {
	const first, count = 12000, 8000
	for i := range count {
		port = first + (os.Getpid()+i)%count
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, err
}

func (c *cluster) writeCertificates() error {
	now := time.Now()
	serving, err := c.authority.server(now, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 32, 0, 1)},
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	toKubelets, err := c.authority.client("kube-apiserver-kubelet-client", "system:masters", now, lifetime)
	if err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountsKey, accountsPublic, err := keyPair(accounts)
	if err != nil {
		return err
	}
	authorityKey, _, err := keyPair(c.authority.key)
	if err != nil {
		return err
	}
	return writeFiles(c.dir, map[string][]byte{
		"ca.crt": c.authority.pem, "ca.key": authorityKey,
		"apiserver.crt": serving.certificate, "apiserver.key": serving.key,
		"kubelet-client.crt": toKubelets.certificate, "kubelet-client.key": toKubelets.key,
		"serviceaccounts.key": accountsKey, "serviceaccounts.pub": accountsPublic,
	})
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfigs writes the kubeconfigs of the components that need one, of the administrator,
// whose credentials c.client uses, and of the node.
func (c *cluster) writeKubeconfigs() error {
	files := map[string][]byte{}
	for file, user := range map[string][2]string{
		"admin.kubeconfig":                {"admin", "system:masters"},
		controllerManager + ".kubeconfig": {"system:" + controllerManager, ""},
		scheduler + ".kubeconfig":         {"system:" + scheduler, ""},
		"node.kubeconfig":                 {"system:node:" + c.options.node, "system:nodes"},
	} {
		var err error
		if files[file], err = c.kubeconfigFor(c.url(), user[0], user[1], lifetime); err != nil {
			return err
		}
	}
	admin, err := c.authority.client("admin", "system:masters", time.Now(), lifetime)
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair(admin.certificate, admin.key)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AddCert(c.authority.certificate)
	c.client = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}},
	}}
	return writeFiles(c.dir, files)
}

func (c *cluster) kubeconfigFor(url, user, group string, valid time.Duration) ([]byte, error) {
	credentials, err := c.authority.client(user, group, time.Now(), valid)
	if err != nil {
		return nil, err
	}
	return kubeconfig(url, c.authority.pem, user, credentials)
}

func (c *cluster) componentDied(_ string, err error) {
	c.report.line("%v", err)
	select {
	case c.died <- err:
	default: // another error is already pending
	}
}

// start starts the selected components and returns once they are ready.
func (c *cluster) start(ctx context.Context) error {
	// Builds report their own time, so they are not part of the step.
	for _, name := range slices.Sorted(maps.Keys(c.components)) {
		if _, err := c.builder.program(ctx, name); err != nil {
			return err
		}
	}
	err := c.report.step("start the control plane of Kubernetes "+c.builder.version(), func() error {
		order := []string{etcd, apiServer}
		if c.options.controllerManager {
			order = append(order, controllerManager)
		}
		if c.options.scheduler {
			order = append(order, scheduler)
		}
		for _, name := range order {
			if err := c.components[name].start(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.control, err = serveControl(ctx, c.path("ctl.sock"), c.handler())
	return err
}

// close stops all components, clients first, and removes the folder.
func (c *cluster) close() error {
	var errs []error
	if c.control != nil {
		errs = append(errs, c.control.close())
	}
	ctx := context.Background()
	for _, name := range []string{scheduler, controllerManager, apiServer, etcd} {
		if at := c.components[name]; at != nil {
			errs = append(errs, at.stop(ctx))
		}
	}
	return errors.Join(append(errs, c.watchdog.finish())...)
}

func (c *cluster) description() description {
	return description{
		URL: c.url(), CA: c.path("ca.crt"), CAKey: c.path("ca.key"),
		Certificate: c.path("apiserver.crt"), Key: c.path("apiserver.key"),
		Kubeconfig: c.path("admin.kubeconfig"), Logs: c.logs(),
	}
}

// environ returns the variables that the command gets in addition to the inherited ones.
func (c *cluster) environ() []string {
	return []string{kubeconfigVariable + "=" + c.path("admin.kubeconfig"), folderVariable + "=" + c.dir}
}

func (c *cluster) instructions() string {
	program, _ := c.builder.program(context.Background(), kubectl)
	return fmt.Sprintf(`the API server is %s

  export KUBECONFIG=%s
  %s get namespaces

A kubelet joins as node %s with

  --kubeconfig=%s --hostname-override=%s

Ctrl-C stops everything.`, c.url(), c.path("admin.kubeconfig"), program, c.options.node, c.path("node.kubeconfig"), c.options.node)
}
