package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kubelet/config/v1"
)

func provider(name string, images ...string) Provider {
	return Provider{Name: name, MatchImages: images, DefaultCacheDuration: &metav1.Duration{Duration: time.Hour}, APIVersion: protocolGroup + "v1"}
}

func podOf(uid, account string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec:       v1.PodSpec{ServiceAccountName: account},
	}
}

// registry is an in-memory plugin. The user in its response has the number of the call.
type registry struct {
	mu             sync.Mutex
	asked          []pluginRequest
	pluginResponse pluginResponse
	err            error
	took           time.Duration
}

func (r *registry) run(ctx context.Context, input []byte) ([]byte, error) {
	var q pluginRequest
	if err := json.Unmarshal(input, &q); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.asked = append(r.asked, q)
	a, err := r.pluginResponse, r.err
	a.Auth = map[string]pluginEntry{"*.x.io": {Username: fmt.Sprint("u", len(r.asked)), Password: "p"}}
	r.mu.Unlock()
	timer := time.NewTimer(r.took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	a.Kind, a.APIVersion = "CredentialProviderResponse", q.APIVersion
	return json.Marshal(a)
}

func (r *registry) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func pluginOn(r *registry, p Provider, accounts ServiceAccounts) *Plugins {
	out := &plugin{Provider: p, accounts: accounts, executed: func(string, time.Duration, error) {}, log: slog.New(slog.DiscardHandler), run: r.run}
	return &Plugins{plugins: []*plugin{out}}
}

func find1(t *testing.T, p Source, pod *v1.Pod, image string) string {
	t.Helper()
	found, err := p.Credentials(t.Context(), pod, image)
	require.NoError(t, err)
	return users(found)
}

// The response determines its cache scope.
func TestPluginCache(t *testing.T) {
	for _, tc := range []struct {
		keyType              string
		other, registry, far string // for a/x again, a/y, b/x
	}{
		{cacheByImage, "u1", "u2", "u3"},
		{cacheByRegistry, "u1", "u1", "u2"},
		{cacheGlobally, "u1", "u1", "u1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &registry{pluginResponse: pluginResponse{CacheKeyType: tc.keyType}}
			p := pluginOn(r, provider("p", "*.x.io"), nil)
			pod := podOf("1", "")
			require.Equal(t, "u1", find1(t, p, pod, "a.x.io/x"))
			require.Equal(t, tc.other, find1(t, p, pod, "a.x.io/x"))
			require.Equal(t, tc.registry, find1(t, p, pod, "a.x.io/y"))
			require.Equal(t, tc.far, find1(t, p, pod, "b.x.io/x"))
			require.Empty(t, find1(t, p, pod, "x.io/x"), "not asked")
			before := r.calls()
			time.Sleep(time.Hour)
			require.NotEqual(t, tc.other, find1(t, p, pod, "a.x.io/x"), "the provider's default is over")
			require.Equal(t, before+1, r.calls())
			require.Len(t, p.plugins[0].cache.entries, 1, "what has expired is dropped")
		})
	}
}

func TestPluginCacheDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pluginResponse: pluginResponse{CacheKeyType: cacheByImage, CacheDuration: &metav1.Duration{}}}
		p := pluginOn(r, provider("p", "*.x.io"), nil)
		require.Equal(t, "u1", find1(t, p, podOf("1", ""), "a.x.io/x"))
		require.Equal(t, "u2", find1(t, p, podOf("1", ""), "a.x.io/x"), "zero keeps nothing")
		r.pluginResponse.CacheDuration = &metav1.Duration{Duration: -time.Hour}
		require.Equal(t, "u3", find1(t, p, podOf("1", ""), "a.x.io/x"), "a response with a negative duration is used once")
		r.pluginResponse.CacheDuration = &metav1.Duration{Duration: math.MaxInt64}
		require.Equal(t, "u4", find1(t, p, podOf("1", ""), "a.x.io/huge"))
		require.Equal(t, "u4", find1(t, p, podOf("1", ""), "a.x.io/huge"))
		r.pluginResponse.CacheDuration = &metav1.Duration{Duration: time.Minute}
		require.Equal(t, "u5", find1(t, p, podOf("1", ""), "a.x.io/x"))
		time.Sleep(time.Minute - time.Nanosecond)
		require.Equal(t, "u5", find1(t, p, podOf("1", ""), "a.x.io/x"))
		time.Sleep(time.Nanosecond)
		require.Equal(t, "u6", find1(t, p, podOf("1", ""), "a.x.io/x"))
	})
}

// Concurrent requests share a run, which ends with the last of them.
func TestPluginRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &registry{pluginResponse: pluginResponse{CacheKeyType: cacheByImage}, took: time.Minute}
		p := pluginOn(r, provider("p", "*.x.io"), nil)
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := p.Credentials(first, podOf("1", ""), "a.x.io/x")
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() { require.Equal(t, "u1", find1(t, p, podOf("1", ""), "a.x.io/x")) })
		}
		synctest.Wait()
		leave()
		wg.Wait()
		require.Equal(t, 1, r.calls())

		alone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		start := time.Now()
		_, err := p.Credentials(alone, podOf("1", ""), "a.x.io/y")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start), "the run was called off")
		require.Empty(t, p.plugins[0].calls.calls)
		require.Equal(t, "u3", find1(t, p, podOf("1", ""), "a.x.io/y"))
	})
}

// A failed provider is in the error, is tried again, and does not affect other providers.
func TestPluginFails(t *testing.T) {
	bad := &registry{err: errors.New("exit status 1"), pluginResponse: pluginResponse{CacheKeyType: cacheByImage}}
	good := &registry{pluginResponse: pluginResponse{CacheKeyType: cacheByImage}}
	p := pluginOn(bad, provider("bad", "a.x.io"), nil)
	p.plugins = append(p.plugins, pluginOn(good, provider("good", "*.x.io"), nil).plugins...)
	for i := range 2 {
		found, err := p.Credentials(t.Context(), podOf("1", ""), "a.x.io/x")
		require.EqualError(t, err, `credential provider "bad": exit status 1`)
		require.Equal(t, "u1", users(found))
		require.Equal(t, i+1, bad.calls())
	}
	garbled := pluginOn(&registry{pluginResponse: pluginResponse{CacheKeyType: "Sometimes"}}, provider("garbled", "*.x.io"), nil)
	_, err := garbled.Credentials(t.Context(), podOf("1", ""), "a.x.io/x")
	require.ErrorContains(t, err, `credential provider "garbled": reply: cacheKeyType`)
}

// tokens provides service accounts. A token contains its pod.
type tokens struct {
	annotations map[string]string
	err         error
	made        int
}

func (s *tokens) ServiceAccount(_ context.Context, namespace, name string) (*v1.ServiceAccount, error) {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-" + types.UID(name), Annotations: s.annotations}}, s.err
}

func (s *tokens) Token(_ context.Context, pod *v1.Pod, audience string) (string, error) {
	s.made++
	return pod.Name + " for " + audience, nil
}

func TestPluginTokens(t *testing.T) {
	yes, no := true, false
	with := func(cacheType configv1.ServiceAccountTokenCacheType, required *bool) Provider {
		p := provider("p", "*.x.io")
		p.TokenAttributes = &configv1.ServiceAccountTokenAttributes{
			ServiceAccountTokenAudience: "aud", CacheType: cacheType, RequireServiceAccount: required,
			OptionalServiceAccountAnnotationKeys: []string{"team"},
		}
		return p
	}
	t.Run("by service account", func(t *testing.T) {
		r, sa := &registry{pluginResponse: pluginResponse{CacheKeyType: cacheByImage}}, &tokens{annotations: map[string]string{"team": "a", "else": "b"}}
		p := pluginOn(r, with(cacheByAccount, &yes), sa)
		require.Equal(t, "u1", find1(t, p, podOf("1", "sa"), "a.x.io/x"))
		require.Equal(t, "u1", find1(t, p, podOf("2", "sa"), "a.x.io/x"))
		require.Equal(t, 1, sa.made, "a kept answer needs no token")
		require.Equal(t, "u2", find1(t, p, podOf("2", "other"), "a.x.io/x"))
		require.Equal(t, "pod-1 for aud", r.asked[0].ServiceAccountToken)
		require.Equal(t, map[string]string{"team": "a"}, r.asked[0].ServiceAccountAnnotations)
		sa.annotations = map[string]string{"team": "b"}
		require.Equal(t, "u3", find1(t, p, podOf("1", "sa"), "a.x.io/x"), "annotations count")
		found, err := p.Credentials(t.Context(), podOf("1", "sa"), "a.x.io/x")
		require.NoError(t, err)
		require.Equal(t, Origin{ServiceAccount: &ServiceAccountRef{UID: "uid-sa", Namespace: "ns", Name: "sa"}}, found[0].Origin)
	})
	t.Run("by token", func(t *testing.T) {
		p := pluginOn(&registry{pluginResponse: pluginResponse{CacheKeyType: cacheByImage}}, with(cacheByToken, &yes), &tokens{})
		require.Equal(t, "u1", find1(t, p, podOf("1", "sa"), "a.x.io/x"))
		require.Equal(t, "u2", find1(t, p, podOf("2", "sa"), "a.x.io/x"))
		require.Equal(t, "u1", find1(t, p, podOf("1", "sa"), "a.x.io/x"))
	})
	t.Run("no service account", func(t *testing.T) {
		r := &registry{pluginResponse: pluginResponse{CacheKeyType: cacheByImage}}
		require.Empty(t, find1(t, pluginOn(r, with(cacheByToken, &yes), &tokens{}), podOf("1", ""), "a.x.io/x"))
		require.Zero(t, r.calls())
		require.Equal(t, "u1", find1(t, pluginOn(r, with(cacheByToken, &no), &tokens{}), podOf("1", ""), "a.x.io/x"))
		require.Empty(t, r.asked[0].ServiceAccountToken)
	})
	t.Run("fails", func(t *testing.T) {
		r := &registry{pluginResponse: pluginResponse{CacheKeyType: cacheByImage}}
		p := with(cacheByToken, &yes)
		p.TokenAttributes.RequiredServiceAccountAnnotationKeys = []string{"role"}
		_, err := pluginOn(r, p, &tokens{}).Credentials(t.Context(), podOf("1", "sa"), "a.x.io/x")
		require.ErrorContains(t, err, `credential provider "p": service account "sa" lacks the annotation "role"`)
		_, err = pluginOn(r, p, &tokens{err: errors.New("gone")}).Credentials(t.Context(), podOf("1", "sa"), "a.x.io/x")
		require.ErrorContains(t, err, `service account "sa": gone`)
		require.Zero(t, r.calls())
	})
}

func TestNewPluginsRefuses(t *testing.T) {
	dir := script(t, "p", "")
	yes := true
	token := provider("p", "x.io")
	token.TokenAttributes = &configv1.ServiceAccountTokenAttributes{ServiceAccountTokenAudience: "a", CacheType: cacheByToken, RequireServiceAccount: &yes}
	for want, cfg := range map[string]PluginsConfig{
		"providers is empty":                            {BinDir: dir},
		"credentials: PluginsConfig.BinDir is required": {Providers: []Provider{provider("p", "x.io")}},
		`credential provider "q"`:                       {Providers: []Provider{provider("q", "x.io")}, BinDir: dir},
		"credentials: PluginsConfig.ServiceAccounts is required by the tokenAttributes of provider \"p\"": {Providers: []Provider{token}, BinDir: dir},
		"credentials: PluginsConfig.ServiceAccounts is required":                                          {Providers: []Provider{token}, BinDir: dir, ServiceAccounts: (*tokens)(nil)},
		`providers[0] "p": matchImages is`:                                                                {Providers: []Provider{provider("p")}, BinDir: dir},
	} {
		_, err := NewPlugins(cfg)
		require.ErrorContains(t, err, want)
	}
}

// The complete path, with a program.
func TestPluginsRunPrograms(t *testing.T) {
	dir := script(t, "p", `grep -q '"image":"a.x.io/x"' || exit 1
echo '`+goodAnswer+`'`)
	var told []string
	p, err := NewPlugins(PluginsConfig{
		Providers: []Provider{provider("p", "*.x.io")}, BinDir: dir,
		OnExec: func(name string, _ time.Duration, err error) { told = append(told, fmt.Sprint(name, " ", err)) },
	})
	require.NoError(t, err)
	require.Equal(t, "u", find1(t, p, podOf("1", ""), "a.x.io/x"))
	_, err = p.Credentials(t.Context(), podOf("1", ""), "b.x.io/x")
	require.ErrorContains(t, err, `credential provider "p": exit status 1`)
	require.Equal(t, []string{"p <nil>", "p exit status 1"}, told)
}
