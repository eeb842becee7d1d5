package credentials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/fields"
)

// PluginsConfig configures Plugins.
type PluginsConfig struct {
	// Providers are the plugins. Their order decides between credentials for the same registry.
	// Required.
	Providers []Provider
	// BinDir is the folder of their programs. Required. NewPlugins fails if a program is missing.
	BinDir string
	// ServiceAccounts provides tokens for providers with TokenAttributes. Required if there is
	// one.
	ServiceAccounts ServiceAccounts
	// OnExec is called after each run of a program, with its duration and its error. It must not
	// block. Optional.
	OnExec func(provider string, took time.Duration, err error)
	// Logger receives a debug line per run. Nil discards.
	Logger *slog.Logger
}

// Plugins finds credentials by running programs: the kubelet's credential provider plugins,
// protocol credentialprovider.kubelet.k8s.io. Create it with NewPlugins. It is safe for concurrent
// use.
//
// A program runs for an image that matches one of its MatchImages, once for concurrent identical
// requests and for at most a minute. Its response specifies the scope and duration of its
// caching. The program is killed when no request waits for it. It runs in a process group of its
// own, which is killed at its end: a child that keeps the output open delays the response by at
// most a second.
type Plugins struct {
	plugins []*plugin
}

type plugin struct {
	Provider
	accounts ServiceAccounts
	executed func(provider string, took time.Duration, err error)
	log      *slog.Logger
	run      func(ctx context.Context, input []byte) ([]byte, error)
	calls    group
	cache    cache
}

// NewPlugins returns Plugins. It fails for an invalid provider, and for one whose program is
// missing.
func NewPlugins(cfg PluginsConfig) (*Plugins, error) {
	if err := validateProviders(cfg.Providers); err != nil {
		return nil, err
	}
	if err := fields.Required("credentials: PluginsConfig.BinDir", cfg.BinDir); err != nil {
		return nil, err
	}
	fields.Default(&cfg.OnExec, func(string, time.Duration, error) {})
	fields.Logger(&cfg.Logger)
	out := &Plugins{}
	for i := range cfg.Providers {
		p := &cfg.Providers[i]
		program, err := find(cfg.BinDir, p)
		if err != nil {
			return nil, fmt.Errorf("credential provider %q: %w", p.Name, err)
		}
		if p.TokenAttributes != nil {
			if err := fields.Required("credentials: PluginsConfig.ServiceAccounts", cfg.ServiceAccounts); err != nil {
				return nil, fmt.Errorf("%w by the tokenAttributes of provider %q", err, p.Name)
			}
		}
		out.plugins = append(out.plugins, &plugin{
			Provider: *p, accounts: cfg.ServiceAccounts, executed: cfg.OnExec, log: cfg.Logger, run: program.run,
		})
	}
	return out, nil
}

// Credentials implements Source. The error contains each failed provider; credentials from the
// rest accompany it.
func (p *Plugins) Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error) {
	var rings []Keyring
	var errs []error
	for _, plugin := range p.plugins {
		if !plugin.wants(repository) {
			continue
		}
		ring, err := plugin.request(ctx, pod, repository)
		if err != nil {
			errs = append(errs, fmt.Errorf("credential provider %q: %w", plugin.Name, err))
			if ctx.Err() != nil {
				break
			}
		}
		rings = append(rings, ring)
	}
	return merge(rings...).Lookup(repository), errors.Join(errs...)
}

func (p *plugin) wants(repository string) bool {
	for _, match := range p.MatchImages {
		if matches(placeOf(match), repository) {
			return true
		}
	}
	return false
}

// request returns the plugin's keyring for an image and a pod, from the cache if possible.
func (p *plugin) request(ctx context.Context, pod *v1.Pod, repository string) (Keyring, error) {
	account, err := p.account(ctx, pod)
	if err != nil || account.skip {
		return Keyring{}, err
	}
	if ring, ok := p.cache.get(repository, account.key, time.Now()); ok {
		return ring, nil
	}
	// Concurrent requests for the same account get the same response, even if it was made for the
	// token of another pod with this account, unless responses are cached by token.
	return p.calls.do(ctx, join(repository, account.key), func(ctx context.Context) (Keyring, error) {
		return p.execute(ctx, pod, repository, account)
	})
}

func (p *plugin) execute(ctx context.Context, pod *v1.Pod, repository string, account account) (Keyring, error) {
	if err := p.needToken(ctx, pod, &account); err != nil {
		return Keyring{}, err
	}
	input, err := json.Marshal(pluginRequest{
		TypeMeta: metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: p.APIVersion},
		Image:    repository, ServiceAccountToken: account.token, ServiceAccountAnnotations: account.annotations,
	})
	if err != nil {
		return Keyring{}, err
	}
	start := time.Now()
	output, err := p.run(ctx, input)
	var found *pluginResponse
	if err == nil {
		found, err = parseResponse(output, p.APIVersion)
	}
	took := time.Since(start)
	p.executed(p.Name, took, err)
	p.log.Debug("credential provider called", "provider", p.Name, "image", repository, "took", took, "err", err)
	if err != nil {
		return Keyring{}, err
	}
	ring := found.keyring(account.origin)
	if keep := cmp.Or(found.CacheDuration, p.DefaultCacheDuration).Duration; keep > 0 {
		p.cache.put(scopeOf(found.CacheKeyType, repository), account.key, ring, time.Now().Add(keep))
	}
	return ring, nil
}

// scopeOf returns the cache scope of a response.
func scopeOf(keyType, repository string) string {
	switch keyType {
	case cacheGlobally:
		return ""
	case cacheByRegistry:
		registry, _, _ := strings.Cut(repository, "/")
		return registry + "/"
	default:
		return repository
	}
}

func join(parts ...string) string { return strings.Join(parts, "\x00") }
