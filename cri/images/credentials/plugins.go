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

// PluginsConfig configures Plugins. Providers and BinDir are required.
type PluginsConfig struct {
	// Providers are the plugins, in the order in which what they answer for
	// the same registry is tried. Required.
	Providers []Provider
	// BinDir is the folder of their programs. Required; each program must be
	// there when Plugins are made.
	BinDir string
	// ServiceAccounts provides tokens for providers with TokenAttributes, and
	// is required if there is one.
	ServiceAccounts ServiceAccounts
	// OnExec is called after each run of a program, with its duration and its error. It
	// must not block. Optional.
	OnExec func(provider string, took time.Duration, err error)
	// Logger gets a debug line per run. nil discards.
	Logger *slog.Logger
}

// Plugins finds credentials by running programs: the kubelet's credential provider
// plugins, protocol credentialprovider.kubelet.k8s.io. Use NewPlugins.
//
// A program is run for an image that one of its MatchImages fits, once for all
// who ask the same at the same time, with a bound of a minute, and its answer is kept
// for as long and for as many images as it says. It is killed when nobody waits for
// it any longer.
type Plugins struct {
	plugins []*plugin
}

// plugin is one provider at work.
type plugin struct {
	Provider
	accounts ServiceAccounts
	executed func(provider string, took time.Duration, err error)
	log      *slog.Logger
	run      func(ctx context.Context, input []byte) ([]byte, error)
	calls    group
	cache    cache
}

// NewPlugins returns Plugins. It fails for a bad provider, and for one whose
// program is missing.
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

// Credentials implements Source. The error names each provider that failed; what
// the others know comes along with it.
func (p *Plugins) Credentials(ctx context.Context, pod *v1.Pod, repository string) ([]Credential, error) {
	var rings []Keyring
	var errs []error
	for _, plugin := range p.plugins {
		if !plugin.wants(repository) {
			continue
		}
		ring, err := plugin.ask(ctx, pod, repository)
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

// wants tells whether the plugin is to be asked about an image.
func (p *plugin) wants(repository string) bool {
	for _, match := range p.MatchImages {
		if matches(placeOf(match), repository) {
			return true
		}
	}
	return false
}

// ask returns the plugin's keyring for an image and a pod, from the cache if
// possible.
func (p *plugin) ask(ctx context.Context, pod *v1.Pod, repository string) (Keyring, error) {
	account, err := p.account(ctx, pod)
	if err != nil || account.skip {
		return Keyring{}, err
	}
	if ring, ok := p.cache.get(repository, account.key, time.Now()); ok {
		return ring, nil
	}
	// Those who ask at the same time for the same account get the same answer,
	// be it made for the token of another pod of it, unless answers are by token.
	return p.calls.do(ctx, join(repository, account.key), func(ctx context.Context) (Keyring, error) {
		return p.execute(ctx, pod, repository, account)
	})
}

// execute runs the program and keeps its answer.
func (p *plugin) execute(ctx context.Context, pod *v1.Pod, repository string, account account) (Keyring, error) {
	if err := p.needToken(ctx, pod, &account); err != nil {
		return Keyring{}, err
	}
	input, err := json.Marshal(question{
		TypeMeta: metav1.TypeMeta{Kind: "CredentialProviderRequest", APIVersion: p.APIVersion},
		Image:    repository, ServiceAccountToken: account.token, ServiceAccountAnnotations: account.annotations,
	})
	if err != nil {
		return Keyring{}, err
	}
	start := time.Now()
	output, err := p.run(ctx, input)
	var found *answer
	if err == nil {
		found, err = parseAnswer(output, p.APIVersion)
	}
	took := time.Since(start)
	p.executed(p.Name, took, err)
	p.log.Debug("asked a credential provider", "provider", p.Name, "image", repository, "took", took, "err", err)
	if err != nil {
		return Keyring{}, err
	}
	ring := found.keyring(account.origin)
	if keep := cmp.Or(found.CacheDuration, p.DefaultCacheDuration).Duration; keep > 0 {
		p.cache.put(scopeOf(found.CacheKeyType, repository), account.key, ring, time.Now().Add(keep))
	}
	return ring, nil
}

// scopeOf is what an answer of a cache key type is good for.
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
