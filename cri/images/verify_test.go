package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/records"
)

// site is a node with records, and a registry with a private image. The private image and a
// preloaded image have the same manifest.
type site struct {
	t       *testing.T
	dir     string
	runtime *fake.Runtime
	m       *Manager
	down    bool // the registry
	pulls   int
	asked   int // lookups of credentials
	secrets map[string]string
}

const (
	private   = "r.io/private:1"
	preloaded = "preloaded:1"
	sharedID  = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
)

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: t.TempDir(), secrets: map[string]string{}}
	registry, err := fake.Registry(
		fake.RemoteImage{Image: fake.Image{Name: private, ID: sharedID}, Username: "u", Password: "p"},
		fake.RemoteImage{Image: fake.Image{Name: "r.io/public:1"}},
		fake.RemoteImage{Image: fake.Image{Name: "r.io/slow:1"}, Username: "u", Password: "p", Latency: time.Hour},
	)
	require.NoError(t, err)
	s.runtime, err = fake.New(fake.Config{
		Images: []fake.Image{{Name: preloaded, ID: sharedID}},
		Pull: func(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (fake.Image, error) {
			if s.pulls++; s.down {
				return fake.Image{}, errors.New("RegistryUnavailable: connection refused")
			}
			return registry(ctx, spec, auth)
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.runtime.Close()) })
	s.restart()
	return s
}

// restart starts a new agent on the same node.
func (s *site) restart() {
	store, err := records.Open(records.Config{Dir: s.dir})
	require.NoError(s.t, err)
	list, err := s.runtime.ListImages(s.t.Context(), nil)
	require.NoError(s.t, err)
	require.NoError(s.t, store.Tidy(list, time.Now()))
	pull, err := credentials.NewPullSecrets(credentials.PullSecretsConfig{Secrets: s})
	require.NoError(s.t, err)
	s.m = newManager(s.t, Config{Service: s.runtime, Credentials: pull, Records: store, QPS: -1})
}

func (s *site) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	s.asked++
	password, ok := s.secrets[namespace+"/"+name]
	if !ok {
		return nil, errors.New("not found")
	}
	config := `{"auths": {"r.io": {"username": "u", "password": "` + password + `"}}}`
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{UID: "uid-of-" + "s"}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(config)},
	}, nil
}

// secretRequest is request for a pod in a namespace, with a pull secret unless secret is empty.
func secretRequest(uid, namespace, secret, image string, policy v1.PullPolicy) Request {
	r := request(uid, image, policy)
	r.Pod.Namespace = namespace
	if secret != "" {
		r.Pod.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: secret}}
	}
	return r
}

// start requests an image and returns the waiting reason, or "" for success.
func (s *site) start(uid, namespace, secret, image string, policy v1.PullPolicy) string {
	_, err := s.m.Ensure(s.t.Context(), secretRequest(uid, namespace, secret, image, policy))
	if err == nil {
		return ""
	}
	return reasonOf(s.t, err).Reason
}

// C26: a pod uses a present image without a registry only with the secret of the pull, or the same
// secret in another namespace. C27: a preloaded image stays usable by all pods after the same
// manifest was pulled from a private repository.
func TestWhoMayUseAPrivateImage(t *testing.T) {
	s := newSite(t)
	s.secrets = map[string]string{"ns/s": "p", "other/same": "p", "third/wrong": "q"}
	require.Empty(t, s.start("preloaded", "ns", "", preloaded, v1.PullNever))
	require.Equal(t, ReasonErrImagePull, s.start("0", "ns", "", private, ""))
	require.Empty(t, s.start("1", "ns", "s", private, ""))
	for range 2 { // and after a restart
		require.Empty(t, s.start("preloaded", "ns", "", preloaded, v1.PullNever))
		s.asked = 0
		require.Equal(t, ReasonErrImagePull, s.start("2", "ns", "", private, ""), "no secret: must pull, and cannot")
		require.Equal(t, ReasonErrImageNeverPull, s.start("3", "ns", "", private, v1.PullNever), "no secret: denied")
		require.Equal(t, ReasonErrImagePull, s.start("4", "third", "wrong", private, ""))
		require.Equal(t, 1, s.asked, "once per request that names a secret")
		before := s.pulls
		require.Empty(t, s.start("5", "other", "same", private, ""), "the same hash elsewhere")
		require.Empty(t, s.start("6", "other", "same", private, v1.PullNever))
		s.down = true
		require.Empty(t, s.start("7", "ns", "s", private, ""), "the registry is down")
		s.secrets["ns/s"] = "rotated"
		require.Empty(t, s.start("8", "ns", "s", private, ""), "the same secret with another password")
		require.Equal(t, before, s.pulls)
		require.Equal(t, ReasonRegistryUnavailable, s.start("9", "ns", "", private, ""))
		s.down, s.secrets["ns/s"] = false, "p"
		s.restart()
	}
}

// Pods with one credential in two secrets share a pull, and both secrets are recorded.
func TestSharedPullIsRecordedForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.secrets = map[string]string{"ns/s": "p", "other/same": "p"}
		one := ensure(t, s.m, secretRequest("1", "ns", "s", "r.io/slow:1", ""))
		two := ensure(t, s.m, secretRequest("2", "other", "same", "r.io/slow:1", ""))
		time.Sleep(time.Hour)
		one.gets(t)
		two.gets(t)
		require.Equal(t, 1, s.pulls)
		s.secrets = map[string]string{"ns/s": "new", "other/same": "newer"}
		require.Empty(t, s.start("3", "ns", "s", "r.io/slow:1", v1.PullNever), "by its coordinates")
		require.Empty(t, s.start("4", "other", "same", "r.io/slow:1", v1.PullNever), "by its coordinates")
	})
}

// C24: an image that appears while a pod waits in the queue is used if the pod has access.
func TestImageThatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.secrets = map[string]string{"ns/s": "p"}
		owner := ensure(t, s.m, secretRequest("1", "ns", "s", "r.io/slow:1", ""))
		stranger := ensure(t, s.m, secretRequest("2", "ns", "", "r.io/slow:1", ""))
		time.Sleep(time.Hour)
		owner.gets(t)
		require.False(t, stranger.returned(), "it must show that it may")
		time.Sleep(time.Hour)
		require.True(t, stranger.returned())
		require.Equal(t, ReasonErrImagePull, reasonOf(t, stranger.err).Reason)
		require.Equal(t, 2, s.pulls)
	})
}

// Without an intent no pull starts.
func TestRecordsCannotBeWritten(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.RemoveAll(filepath.Join(s.dir, "pulling")))
	require.Equal(t, ReasonErrImagePull, s.start("1", "ns", "", "r.io/public:1", ""))
	require.Zero(t, s.pulls)
}

// users returns one credential per name.
func users(names ...string) (out []credentials.Credential) {
	for _, name := range names {
		out = append(out, credentials.Credential{Auth: &runtimeapi.AuthConfig{Username: name}})
	}
	return out
}

// from returns these credentials, and err, for all pods.
func from(err error, names ...string) credentials.Source {
	return credentials.SourceFunc(func(context.Context, *v1.Pod, string) ([]credentials.Credential, error) {
		return users(names...), err
	})
}

func TestCredentials(t *testing.T) {
	denied, gone := errors.New("denied"), errors.New("RegistryUnavailable: gone")
	for _, tc := range []struct {
		name   string
		source credentials.Source
		fail   map[string]error
		pulled []string
		errs   []error
	}{
		{"tried in turn", from(nil, "one", "two", "three"), map[string]error{"a:latest one": denied}, []string{"a:latest one", "a:latest two"}, nil},
		{"all fail", from(nil, "one", "two"), map[string]error{"a:latest one": denied, "a:latest two": gone}, []string{"a:latest one", "a:latest two"}, []error{denied, gone}},
		{"none is anonymous", from(nil), nil, []string{"a:latest"}, nil},
		{"some cannot be found, others do", from(denied, "one"), nil, []string{"a:latest one"}, nil},
		{"some cannot be found, others fail", from(denied, "one"), map[string]error{"a:latest one": gone}, []string{"a:latest one"}, []error{denied, gone}},
		{"of the pod and the repository", credentials.SourceFunc(func(_ context.Context, pod *v1.Pod, repository string) ([]credentials.Credential, error) {
			return users(pod.Name + " " + repository), nil
		}), nil, []string{"a:latest pod-u a"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService()
			s.fail = tc.fail
			err := get(t, newManager(t, Config{Service: s, Credentials: tc.source}), "u", "a", "")
			require.Equal(t, tc.pulled, s.pulled())
			if tc.errs == nil {
				require.NoError(t, err)
				return
			}
			for _, want := range tc.errs {
				require.ErrorIs(t, err, want)
			}
			require.Equal(t, ReasonRegistryUnavailable, reasonOf(t, err).Reason)
		})
	}
}

// After cancellation no further credential is tried.
func TestCancelledBetweenCredentials(t *testing.T) {
	serving(t, time.Hour, Config{Credentials: from(nil, "one", "two")}, func(t *testing.T, s *service, m *Manager) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := m.Ensure(ctx, request("u", "a:1", ""))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []string{"a:1 one"}, s.pulled())
	})
}
