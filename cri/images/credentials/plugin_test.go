package credentials

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	configv1 "k8s.io/kubelet/config/v1"
)

const goodAnswer = `{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
	"cacheKeyType": "Registry", "cacheDuration": "5m", "auth": {"*.x.io": {"username": "u", "password": "p"}}}`

func TestParseResponse(t *testing.T) {
	got, err := parseResponse([]byte(goodAnswer), protocolGroup+"v1")
	require.NoError(t, err)
	require.Equal(t, 5*time.Minute, got.CacheDuration.Duration)
	require.Equal(t, "u", users(got.keyring(Origin{}).Lookup("a.x.io/y")))
	for _, tc := range []struct{ from, to, want string }{
		{goodAnswer, "", "reply of 0 bytes is not JSON"},
		{goodAnswer, "s3cret", "not JSON"},
		{goodAnswer, `["s3cret"]`, "wrong type"},
		{`"p"`, `{"s3cret": 1}`, "wrong type, want string"},
		{"CredentialProviderResponse", "CredentialProviderRequest", "kind is not CredentialProviderResponse"},
		{"k8s.io/v1", "k8s.io/v1beta1", "apiVersion is not credentialprovider.kubelet.k8s.io/v1"},
		{"Registry", "s3cret", "not Image, Registry or Global"},
		{"5m", "s3cret", "cacheDuration is not a duration"},
		{"5m", "9999999h", "cacheDuration is not a duration"},
		{"Registry", "", "not Image, Registry or Global"},
		{"Registry", "registry", "not Image, Registry or Global"},
		{"*.x.io", "", "invalid key in auth"},
	} {
		changed := strings.Replace(goodAnswer, tc.from, tc.to, 1)
		_, err := parseResponse([]byte(changed), protocolGroup+"v1")
		require.ErrorContains(t, err, tc.want)
		require.NotContains(t, err.Error(), "s3cret")
	}
	none, err := parseResponse([]byte(strings.Replace(goodAnswer, `{"*.x.io": {"username": "u", "password": "p"}}`, "null", 1)), protocolGroup+"v1")
	require.NoError(t, err)
	require.Empty(t, none.keyring(Origin{}).keys)
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(goodAnswer), "a.x.io/y")
	f.Add([]byte(`{"auth": {"[": {}}}`), "x")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		got, err := parseResponse(data, protocolGroup+"v1")
		if err != nil {
			require.Nil(t, got)
			return
		}
		for _, c := range got.keyring(Origin{}).Lookup(image) {
			require.NotNil(t, c.Auth)
		}
	})
}

// script creates a program from a shell script and returns its folder.
func script(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755))
	return dir
}

// requireEnded fails the test unless the process ends. A zombie has ended.
func requireEnded(t *testing.T, pid string) {
	t.Helper()
	require.Eventually(t, func() bool {
		state, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
		return !errors.Is(err, exec.ErrNotFound) && (len(state) == 0 || state[0] == 'Z')
	}, 10*time.Second, 10*time.Millisecond, "child %s of the plugin runs", pid)
}

func TestProgram(t *testing.T) {
	for _, tc := range []struct {
		script, out, err string
		timeout          time.Duration
	}{
		{`echo "$1 $2 $A $(cat)"; echo noise >&2`, "one two b input\n", "", time.Minute},
		{`echo s3cret; printf 'no\033 such role\n' >&2; exit 3`, "", "exit status 3: no  such role", time.Minute},
		{`exit 3`, "", "exit status 3", time.Minute},
		{`head -c 2000000 /dev/zero`, "", "reply exceeds 1048576 bytes", time.Minute},
		{`cat /dev/zero`, "", "reply exceeds 1048576 bytes", time.Hour},
		{`cat /dev/zero >&2`, "", "error output exceeds 16777216 bytes", time.Hour},
		{`head -c 2000000 /dev/zero >&2; exit 1`, "", "exit status 1", time.Minute},
		{`sleep 600`, "", "no exit within 50ms", 50 * time.Millisecond},
		{`trap "" TERM; sleep 600 & echo $! >$0.child; wait`, "", "no exit within 300ms", 300 * time.Millisecond},
		{`sleep 600 & echo $! >$0.child; echo reply`, "reply\n", "", time.Minute},
		{`sleep 600 >/dev/null 2>&1 & echo $! >$0.child; exit 3`, "", "exit status 3", time.Minute},
		{`(sleep 0.1; echo reply) &`, "reply\n", "", time.Minute},
	} {
		p, err := find(script(t, "p", tc.script), &Provider{Name: "p", Args: []string{"one", "two"}, Env: []configv1.ExecEnvVar{{Name: "A", Value: "b"}}})
		require.NoError(t, err)
		p.timeout = tc.timeout
		out, err := p.run(t.Context(), []byte("input"))
		if child, err := os.ReadFile(p.path + ".child"); err == nil {
			requireEnded(t, strings.TrimSpace(string(child)))
		}
		if tc.err != "" {
			require.EqualError(t, err, tc.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.out, string(out))
	}
	p, err := find(script(t, "p", "sleep 600"), &Provider{Name: "p"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.run(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	_, err := find(dir, &Provider{Name: "p"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p"), nil, 0o600))
	_, err = find(dir, &Provider{Name: "p"})
	require.ErrorContains(t, err, "is not an executable file")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	_, err = find(dir, &Provider{Name: "d"})
	require.ErrorContains(t, err, "is not an executable file")
}
