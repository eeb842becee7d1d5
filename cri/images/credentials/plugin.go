package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/internal/run"
)

const (
	pluginTimeout = time.Minute
	// maxResponse and maxErrorOutput bound a plugin's output and error output, in bytes. A plugin
	// that writes more is killed. The first keptErrors bytes of the error output are kept.
	maxResponse    = 1 << 20
	maxErrorOutput = 16 << 20
	keptErrors     = 1 << 10
)

type pluginRequest struct {
	metav1.TypeMeta           `json:",inline"`
	Image                     string            `json:"image"`
	ServiceAccountToken       string            `json:"serviceAccountToken,omitempty"`
	ServiceAccountAnnotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
}

type pluginResponse struct {
	metav1.TypeMeta `json:",inline"`
	CacheKeyType    string                 `json:"cacheKeyType"`
	CacheDuration   *metav1.Duration       `json:"cacheDuration,omitempty"`
	Auth            map[string]pluginEntry `json:"auth,omitempty"`
}

type pluginEntry struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// The values of pluginResponse.CacheKeyType.
const (
	cacheByImage    = "Image"
	cacheByRegistry = "Registry"
	cacheGlobally   = "Global"
)

// parseResponse parses a plugin's output. Errors contain no part of it.
func parseResponse(data []byte, apiVersion string) (*pluginResponse, error) {
	var a pluginResponse
	if err := json.Unmarshal(data, &a); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, fmt.Errorf("reply is not a CredentialProviderResponse: byte %d: wrong type, want %s", kind.Offset, kind.Type.Kind())
		}
		if json.Valid(data) {
			return nil, errors.New("reply: cacheDuration is not a duration such as 5m, up to 290 years")
		}
		return nil, fmt.Errorf("reply of %d bytes is not JSON", len(data))
	}
	switch {
	case a.Kind != "CredentialProviderResponse":
		return nil, errors.New("reply: kind is not CredentialProviderResponse")
	case a.APIVersion != apiVersion:
		return nil, fmt.Errorf("reply: apiVersion is not %s", apiVersion)
	case !slices.Contains([]string{cacheByImage, cacheByRegistry, cacheGlobally}, a.CacheKeyType):
		return nil, errors.New("reply: cacheKeyType is not Image, Registry or Global")
	}
	for place := range a.Auth {
		if err := checkPlace(place); err != nil {
			return nil, fmt.Errorf("reply: invalid key in auth: %w", err)
		}
	}
	return &a, nil
}

func (a *pluginResponse) keyring(o Origin) Keyring {
	var k Keyring
	for _, place := range slices.Sorted(maps.Keys(a.Auth)) {
		entry := a.Auth[place]
		k.add(place, Credential{Auth: &runtimeapi.AuthConfig{Username: entry.Username, Password: entry.Password}, Origin: o})
	}
	k.sort()
	return k
}

type program struct {
	path    string
	args    []string
	env     []string // in addition to this process's environment
	timeout time.Duration
}

// find returns the program of a provider, or an error if it is missing or not executable.
func find(binDir string, p *Provider) (program, error) {
	out := program{path: filepath.Join(binDir, p.Name), args: p.Args, timeout: pluginTimeout}
	info, err := os.Stat(out.path)
	switch {
	case err != nil:
		return program{}, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return program{}, fmt.Errorf("%s is not an executable file", out.path)
	}
	for _, env := range p.Env {
		out.env = append(out.env, env.Name+"="+env.Value)
	}
	return out, nil
}

func (p program) run(ctx context.Context, input []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, fmt.Errorf("no exit within %s", p.timeout))
	defer cancel()
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	stdout := &bounded{what: "reply", keep: maxResponse, limit: maxResponse, end: kill}
	stderr := &bounded{what: "error output", keep: keptErrors, limit: maxErrorOutput, end: kill}
	cmd := run.Command(ctx, p.path, p.args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), stdout, stderr
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
		_ = cmd.Cancel() // so that no child outlives the plugin, except in a session of its own
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // the plugin succeeded, and a child kept its output open
	case err != nil:
		if message := printable(string(stderr.kept)); message != "" {
			err = fmt.Errorf("%w: %s", err, message)
		}
		return nil, err
	}
	return stdout.kept, nil
}

// printable removes control characters from a text for a log line.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}

// bounded stores the first keep bytes of its input and discards the rest. It calls end when the
// input is longer than limit bytes.
type bounded struct {
	what        string
	keep, limit int
	kept        []byte
	written     int
	end         func(error)
}

func (b *bounded) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[:min(len(p), b.keep-len(b.kept))]...)
	if b.written += len(p); b.written > b.limit {
		b.end(fmt.Errorf("%s exceeds %d bytes", b.what, b.limit))
	}
	return len(p), nil
}
