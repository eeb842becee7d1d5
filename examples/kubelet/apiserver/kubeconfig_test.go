package apiserver_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

type credentials struct {
	t         *testing.T
	dir       string
	authority *apitest.Authority
}

func newCredentials(t *testing.T) credentials {
	c := credentials{t: t, dir: t.TempDir(), authority: apitest.NewAuthority(t)}
	c.write("ca.crt", c.authority.PEM)
	c.issue("node", time.Now().Add(time.Hour))
	return c
}

func (c credentials) write(name string, data []byte) {
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.WriteFile(path+".new", data, 0o600))
	require.NoError(c.t, os.Rename(path+".new", path))
}

func (c credentials) issue(name string, notAfter time.Time) {
	cert, key := c.authority.Issue(name, notAfter)
	c.write("node.pem", append(cert, key...))
}

func (c credentials) text(server string) string {
	return strings.Replace(apitest.Kubeconfig(server, "client-certificate: node.pem\n    client-key: node.pem"),
		"server:", "certificate-authority: ca.crt\n    server:", 1)
}

func (c credentials) point(server string) { c.write("kubeconfig", []byte(c.text(server))) }

func (c credentials) config(log *slog.Logger) apiserver.Config {
	return apiserver.Config{Kubeconfig: filepath.Join(c.dir, "kubeconfig"), UserAgent: "test/1", Period: 10 * time.Millisecond, Logger: log}
}

// An error in a kubeconfig is one line with the file and the field.
func TestWrongKubeconfig(t *testing.T) {
	c := newCredentials(t)
	good := c.text("https://127.0.0.1:6443")
	other, _ := c.authority.Issue("other", time.Now().Add(time.Hour))
	c.write("other.crt", other)
	c.write("empty", nil)
	for name, x := range map[string]struct{ text, part, says string }{
		"empty":                        {" \n", "", "the file is empty"},
		"no YAML":                      {"a: [", "", "did not find"},
		"another object":               {"apiVersion: v1\nkind: Pod\n", "", `"Pod"`},
		"no context chosen":            {strings.Replace(good, "current-context: test", "", 1), "current-context", "is required"},
		"no such context":              {strings.Replace(good, "current-context: test", "current-context: else", 1), "current-context", `context "else" does not exist`},
		"no such cluster":              {strings.Replace(good, "{cluster: test", "{cluster: else", 1), "contexts[test].cluster", `cluster "else" does not exist`},
		"no cluster":                   {strings.Replace(good, "{cluster: test, ", "{", 1), "contexts[test].cluster", "is required"},
		"no such user":                 {strings.Replace(good, "user: test}", "user: else}", 1), "contexts[test].user", `user "else" does not exist`},
		"no user":                      {strings.Replace(good, ", user: test}", "}", 1), "contexts[test].user", "is required"},
		"no server":                    {c.text(""), "clusters[test].server", "is required"},
		"no address":                   {c.text("apiserver:6443"), "clusters[test].server", "is not the address of a server"},
		"no host":                      {c.text("https://"), "clusters[test].server", "is not the address of a server"},
		"bad address":                  {c.text("https://a:b:c"), "clusters[test].server", "invalid"},
		"no CA file":                   {strings.Replace(good, "ca.crt", "none.crt", 1), "clusters[test].certificate-authority", "no such file"},
		"empty CA file":                {strings.Replace(good, "ca.crt", "empty", 1), "clusters[test].certificate-authority", "is empty"},
		"CA is not a certificate":      {strings.Replace(good, "ca.crt", "kubeconfig", 1), "clusters[test].certificate-authority", "certificates"},
		"CA data is not a certificate": {strings.Replace(good, "certificate-authority: ca.crt", "certificate-authority-data: "+base64.StdEncoding.EncodeToString([]byte("x")), 1), "clusters[test].certificate-authority-data", "certificates"},
		"data is not base64":           {strings.Replace(good, "certificate-authority: ca.crt", "certificate-authority-data: '%%'", 1), "", "base64"},
		"no certificate file":          {strings.Replace(good, "certificate: node.pem", "certificate: none.pem", 1), "users[test].client-certificate", "no such file"},
		"no key":                       {strings.Replace(good, "client-key: node.pem", "", 1), "users[test].client-key", "is required"},
		"no certificate":               {strings.Replace(good, "client-certificate: node.pem", "", 1), "users[test].client-certificate", "is required"},
		"certificate is not PEM":       {strings.Replace(good, "certificate: node.pem", "certificate: kubeconfig", 1), "users[test].client-certificate", "certificates"},
		"key of another certificate":   {strings.Replace(good, "certificate: node.pem", "certificate: other.crt", 1), "users[test].client-key", "match"},
		"no token file":                {strings.Replace(good, "client-key: node.pem", "client-key: node.pem\n    tokenFile: none", 1), "users[test].tokenFile", "no such file"},
		"empty token file":             {strings.Replace(good, "client-key: node.pem", "client-key: node.pem\n    tokenFile: empty", 1), "users[test].tokenFile", "is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			c.write("kubeconfig", []byte(x.text))
			_, err := apiserver.New(c.config(nil))
			var wrong *apiserver.ConfigError
			require.ErrorAs(t, err, &wrong)
			file := filepath.Join(c.dir, "kubeconfig")
			require.Equal(t, file, wrong.File)
			require.Equal(t, x.part, wrong.Part)
			require.ErrorContains(t, err, x.says)
			require.True(t, strings.HasPrefix(err.Error(), "kubeconfig "+file+": "), err)
			require.NotContains(t, err.Error(), "\n")
			require.Equal(t, 1, strings.Count(err.Error(), file), err)
		})
	}
	require.NoError(t, os.Remove(filepath.Join(c.dir, "kubeconfig")))
	_, err := apiserver.New(c.config(nil))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), c.dir), err)
}

// Address, authority and certificate can change under a watch. An unusable file leaves the last
// valid one in use, and is logged once.
func TestKubeconfigChanges(t *testing.T) {
	server := apitest.New()
	a, b := newCredentials(t), newCredentials(t)
	first, second := server.StartTLS(t, a.authority), server.StartTLS(t, b.authority)
	var log lines
	a.point(first)
	client, err := apiserver.New(a.config(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	stop := apitest.Run(t, client.Run)
	feed := follow(t, client)
	user := func(name string) func() bool { // the user of the current credentials
		return func() bool {
			_, err := client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
			calls := server.Calls()
			return err == nil && calls[len(calls)-1].User == name
		}
	}
	server.Put(configMap("a", "1"))
	require.Eventually(t, feed.shows("a", "1"), time.Minute, 5*time.Millisecond)
	require.True(t, user("node")())
	require.Equal(t, first, client.Server())

	a.issue("renewed", time.Now().Add(2*time.Hour))
	require.Eventually(t, user("renewed"), time.Minute, 5*time.Millisecond)
	server.Put(configMap("a", "2"))
	require.Eventually(t, feed.shows("a", "2"), time.Minute, 5*time.Millisecond)

	a.write("kubeconfig", []byte("a: ["))
	a.write("kubeconfig", []byte("a: [ "))
	require.True(t, user("renewed")())

	a.write("kubeconfig", []byte(strings.ReplaceAll(a.text(first), "node.pem", "late.pem\n    token: secret")))
	require.True(t, user("renewed")())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "late.pem") }, time.Minute, 5*time.Millisecond)
	late, lateKey := a.authority.Issue("late", time.Now().Add(time.Hour))
	a.write("late.pem", append(late, lateKey...))
	require.Eventually(t, user("late"), time.Minute, 5*time.Millisecond)
	calls := server.Calls()
	require.Equal(t, "Bearer secret", calls[len(calls)-1].Header.Get("Authorization"))

	a.write("ca.crt", b.authority.PEM)
	cert, key := b.authority.Issue("moved", time.Now().Add(time.Hour))
	a.write("node.pem", append(cert, key...))
	a.point(second)
	require.Eventually(t, user("moved"), time.Minute, 5*time.Millisecond)
	require.Equal(t, second, client.Server())
	server.Put(configMap("a", "3"))
	require.Eventually(t, feed.shows("a", "3"), time.Minute, 5*time.Millisecond)

	stop()
	require.Equal(t, 1, strings.Count(log.String(), "late.pem"), "a fault is logged once: %s", log.String())
	require.ErrorIs(t, client.Run(t.Context()), apiserver.ErrAlreadyRun)
}

// A change of the address interrupts a watch for less than a second, counted from the change of the
// file. No other call fails.
func TestWatchFollowsNewAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := connect(t)
		apitest.Run(t, client.Run)
		feed := follow(t, client)
		n := 0
		put := func() {
			n++
			server.Put(configMap("a", fmt.Sprint(n)))
		}
		put()
		time.Sleep(time.Minute)
		require.True(t, feed.shows("a", "1")())
		lists := server.CountCalls("list", "configmaps")

		text, err := os.ReadFile(server.Kubeconfig)
		require.NoError(t, err)
		text = bytes.Replace(text, []byte("server.test"), []byte("moved.test:8080"), 1)
		require.NoError(t, os.WriteFile(server.Kubeconfig, text, 0o600))
		for range 300 {
			put()
			_, err := client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, "http://moved.test:8080", client.Server())
		require.Less(t, feed.gap(), time.Second)
		require.LessOrEqual(t, server.CountCalls("list", "configmaps"), lists+1)
		require.True(t, feed.shows("a", fmt.Sprint(n))())
	})
}

// CertificateFile is used as soon as and as long as it is usable.
func TestCertificateFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(t)
		c.issue("node", time.Now().Add(100*time.Hour))
		c.point("https://127.0.0.1:1")
		cfg := c.config(nil)
		cfg.Period, cfg.CertificateFile = time.Second, filepath.Join(c.dir, "current.pem")
		client, err := apiserver.New(cfg)
		require.NoError(t, err)
		go func() { _ = client.Run(t.Context()) }()
		expires := func() float64 {
			time.Sleep(3 * time.Second)
			synctest.Wait()
			return time.Until(client.Expires()).Round(time.Hour).Hours()
		}
		put := func(notAfter time.Time) {
			cert, key := c.authority.Issue("node", notAfter)
			c.write("current.pem", append(cert, key...))
		}
		require.Equal(t, 100.0, expires())
		put(time.Now().Add(20 * time.Hour))
		require.Equal(t, 20.0, expires())
		c.write("current.pem", []byte("half"))
		require.Equal(t, 100.0, expires())
		put(time.Now().Add(-time.Hour))
		require.Equal(t, 100.0, expires())
		put(time.Now().Add(30 * time.Hour))
		require.Equal(t, 30.0, expires())
	})
}

// A client without a usable credential fails each call at once, with the file and the reason. It
// uses the first usable one without a restart.
func TestWithoutCredential(t *testing.T) {
	for name, x := range map[string]struct {
		await  bool
		breaks func(t *testing.T, c credentials)
		says   string
	}{
		"expired":          {false, func(_ *testing.T, c credentials) { c.issue("node", time.Now()) }, "node.pem: the client certificate has expired: at 2"},
		"no file":          {true, func(t *testing.T, c credentials) { require.NoError(t, os.Remove(filepath.Join(c.dir, "kubeconfig"))) }, "kubeconfig: no such file"},
		"truncated":        {true, func(_ *testing.T, c credentials) { c.write("kubeconfig", []byte("apiVersion: v1\nki")) }, "kubeconfig: "},
		"half certificate": {true, func(_ *testing.T, c credentials) { c.write("node.pem", []byte("-----BEGIN CERT")) }, "client-certificate: "},
		"a folder": {true, func(t *testing.T, c credentials) {
			instead(t, c, func(path string) error { return os.Mkdir(path, 0o700) })
		}, "is a folder"},
		"a pipe": {true, func(t *testing.T, c credentials) {
			instead(t, c, func(path string) error { return syscall.Mkfifo(path, 0o600) })
		}, "is a named pipe"},
		"expires meanwhile": {false, func(*testing.T, credentials) { time.Sleep(2 * time.Hour) }, "has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, c := apitest.Start(t), newCredentials(t)
				server.Put(configMap("a", "1"))
				c.point("http://server.test")
				cfg := c.config(nil)
				cfg.Period, cfg.Dial, cfg.Await, cfg.Limits = time.Second, server.Dial, x.await, apiserver.Limits{QPS: -1}
				if name != "expires meanwhile" {
					x.breaks(t, c)
				}
				client, err := apiserver.New(cfg)
				require.NoError(t, err)
				apitest.Run(t, client.Run)
				get := func() error {
					_, err := client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
					return err
				}
				if name == "expires meanwhile" {
					require.NoError(t, get())
					x.breaks(t, c)
				}
				calls := len(server.Calls())
				for range 3 {
					time.Sleep(time.Minute)
					began := time.Now()
					var wrong *apiserver.ConfigError
					require.ErrorAs(t, get(), &wrong)
					require.Equal(t, cfg.Kubeconfig, wrong.File)
					require.Equal(t, client.Err().Error(), wrong.Error())
					require.ErrorContains(t, wrong, x.says)
					require.Zero(t, time.Since(began))
					require.Equal(t, !x.await, errors.Is(wrong, apiserver.ErrExpired))
				}
				require.Len(t, server.Calls(), calls)

				_ = os.Remove(cfg.Kubeconfig) // a folder cannot be replaced
				c.point("http://server.test")
				c.issue("node", time.Now().Add(time.Hour))
				time.Sleep(2 * time.Second)
				require.NoError(t, get())
				require.NoError(t, client.Err())
				require.Equal(t, time.Now().Add(time.Hour-2*time.Second).Unix(), client.Expires().Unix())
			})
		})
	}
}

func instead(t *testing.T, c credentials, make func(path string) error) {
	path := filepath.Join(c.dir, "kubeconfig")
	require.NoError(t, os.Remove(path))
	require.NoError(t, make(path))
}

// A valid certificate stays in use if its file gets an expired one.
func TestExpiredReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(t)
		c.point("http://127.0.0.1:1")
		cfg := c.config(nil)
		cfg.Period = time.Second
		client, err := apiserver.New(cfg)
		require.NoError(t, err)
		apitest.Run(t, client.Run)
		c.issue("node", time.Now().Add(-time.Minute))
		time.Sleep(30 * time.Minute)
		require.NoError(t, client.Err())
		time.Sleep(31 * time.Minute)
		require.ErrorIs(t, client.Err(), apiserver.ErrExpired)
	})
}

// A call that started before the end of the certificate is not repeated after it.
func TestRetriesEndWithCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCredentials(t)
		c.point("http://server.test")
		end := time.Now().Add(3 * time.Second)
		c.issue("node", end)
		cfg, dials := c.config(nil), 0
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			require.True(t, time.Now().Before(end))
			dials++
			return nil, io.EOF // is repeated
		}
		client, err := apiserver.New(cfg)
		require.NoError(t, err)
		_, err = client.ConfigMaps("ns").Get(t.Context(), "a", metav1.GetOptions{})
		require.ErrorIs(t, err, apiserver.ErrExpired)
		require.Greater(t, dials, 1)
	})
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
