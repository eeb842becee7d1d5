package objects_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	certv1 "k8s.io/api/certificates/v1"
	certv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/cri/pods/request"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
	"github.com/podwright/podwright/examples/kubelet/apiserver/objects"
	"github.com/podwright/podwright/volume"
	volumeobjects "github.com/podwright/podwright/volume/objects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rig struct {
	*objects.Objects
	server *apitest.Server

	idle int // watches without any object

	mu      sync.Mutex
	changes []volume.Object
}

func bubble(t *testing.T, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{server: apitest.Start(t)}
		var err error
		r.Objects, err = objects.New(objects.Config{Client: r.server.Client(t), OnChange: r.changed})
		require.NoError(t, err)
		apitest.Run(t, r.Run)
		synctest.Wait()
		r.idle = r.server.Watches()
		test(t, r)
	})
}

func (r *rig) changed(objects []volume.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, objects...)
}

// changesOf returns how often OnChange reported an object since the last call.
func (r *rig) changesOf(kind, name string) (n int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.changes {
		if o.Kind == kind && o.Name == name {
			n++
		}
	}
	r.changes = nil
	return n
}

func configMap(name, value string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{"key": value}}
}

func (r *rig) value(t *testing.T, name string) string {
	t.Helper()
	m, err := r.ConfigMap(t.Context(), "ns", name)
	require.NoError(t, err)
	return m.Data["key"]
}

// watches returns the number of open watches, without the watch of services.
func (r *rig) watches() int {
	synctest.Wait()
	return r.server.Watches() - r.idle
}

func user(configMap, secret string) *v1.Pod {
	source := func(v v1.VolumeSource) v1.Volume { return v1.Volume{Name: "v", VolumeSource: v} }
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}, Spec: v1.PodSpec{Volumes: []v1.Volume{
		source(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: configMap}}}),
		source(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: secret}}),
	}}}
}

// node.md 12: each object has one watch, however many requests there are. Changes are reported and
// visible at once. The watch ends when no pod references the object, and starts again on use.
func TestOneWatchForAnObject(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.server.Put(configMap("a", "1"))
		r.server.Put(configMap("other", "1"))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { require.Equal(t, "1", r.value(t, "a")) })
		}
		wg.Wait()
		_, err := r.Secret(t.Context(), "ns", "none")
		require.True(t, volumeobjects.IsNotFound(err), "%v", err)
		require.ErrorContains(t, err, `secret "ns/none" not found`)
		require.Equal(t, 2, r.watches())
		require.Equal(t, 1, r.server.CountCalls("list", "configmaps"))
		require.Zero(t, r.server.CountCalls("get", "configmaps"))
		for _, c := range r.server.Calls() {
			if c.Resource == "configmaps" {
				require.Equal(t, []string{"metadata.name=a"}, c.Query["fieldSelector"], "a node may not read others")
			}
		}
		require.Empty(t, r.changes, "no change is reported for an object that the request returned")

		r.server.Put(configMap("a", "2"))
		r.server.Put(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "none"}})
		r.server.Put(configMap("other", "2"))
		synctest.Wait()
		require.ElementsMatch(t, []volume.Object{{Kind: "ConfigMap", Namespace: "ns", Name: "a"}, {Kind: "Secret", Namespace: "ns", Name: "none"}}, r.changes)
		require.Equal(t, "2", r.value(t, "a"))
		_, err = r.Secret(t.Context(), "ns", "none")
		require.NoError(t, err)

		r.Keep([]*v1.Pod{user("a", "none")}, nil)
		require.Equal(t, 2, r.watches())
		r.Keep([]*v1.Pod{user("a", "another")}, []volume.Object{{Kind: volumeobjects.KindSecret, Namespace: "ns", Name: "none"}})
		require.Equal(t, 2, r.watches(), "a volume needs the secret")
		r.Keep([]*v1.Pod{user("a", "another")}, nil)
		require.Equal(t, 1, r.watches())
		r.Keep(nil, nil)
		require.Zero(t, r.watches())

		r.server.Put(configMap("a", "3"))
		require.Equal(t, "3", r.value(t, "a"))
		require.Equal(t, 1, r.watches())
	})
}

// N40: an immutable object is read once. An object that becomes immutable is watched until then.
func TestImmutable(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		fixed := configMap("a", "1")
		fixed.Immutable = new(true)
		r.server.Put(fixed)
		r.server.Put(configMap("b", "1"))
		r.value(t, "a")
		r.value(t, "b")
		require.Equal(t, 1, r.watches())
		later := configMap("b", "2")
		later.Immutable = new(true)
		r.server.Put(later)
		require.Zero(t, r.watches())
		calls := r.server.CountCalls("list", "configmaps") + r.server.CountCalls("watch", "configmaps")
		for range 3 {
			require.Equal(t, "2", r.value(t, "b"))
			r.value(t, "a")
		}
		time.Sleep(time.Hour)
		require.Equal(t, calls, r.server.CountCalls("list", "configmaps")+r.server.CountCalls("watch", "configmaps"))
	})
}

// An unavailable server blocks a request for at most a second. Seen objects stay, and changes are
// reported when the server is back.
func TestUnreachableServer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.server.Put(configMap("a", "1"))
		require.Equal(t, "1", r.value(t, "a"))
		r.server.SetDown(true)
		begun := time.Now()
		_, err := r.ConfigMap(t.Context(), "ns", "new")
		require.ErrorContains(t, err, "ConfigMap ns/new: not read yet")
		require.False(t, volumeobjects.IsNotFound(err), "whether it exists is unknown")
		require.LessOrEqual(t, time.Since(begun), time.Second)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = r.Secret(cancelled, "ns", "a")
		require.ErrorIs(t, err, context.Canceled)
		r.server.Put(configMap("a", "2"))
		r.server.Put(configMap("new", "1"))
		time.Sleep(3 * time.Hour)
		require.Equal(t, "1", r.value(t, "a"))
		r.changesOf("", "")

		r.server.SetDown(false)
		time.Sleep(time.Minute)
		require.Equal(t, 1, r.changesOf("ConfigMap", "new"))
		require.Equal(t, "2", r.value(t, "a"))
	})
}

// An object that a node may not read yet is read as soon as the node may.
func TestObjectForbiddenAtFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.server.Put(configMap("a", "1"))
		r.server.SetFault(func(c apitest.Call) apitest.Fault {
			if c.Resource == "configmaps" {
				return apitest.Fault{Status: 403}
			}
			return apitest.Fault{}
		})
		// A retry follows within the first second.
		time.AfterFunc(200*time.Millisecond, func() { r.server.SetFault(nil) })
		require.Equal(t, "1", r.value(t, "a"))
	})
}

// V10: a token is requested once, and again when a fifth of its lifetime remains.
func TestTokens(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.server.Put(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}})
		ask := volumeobjects.TokenRequest{Namespace: "ns", ServiceAccount: "sa", Audiences: []string{"vault"}, ExpirationSeconds: 3600, PodName: "p", PodUID: "1"}
		token := func() string {
			got, err := r.Token(t.Context(), ask)
			require.NoError(t, err)
			return got.Value
		}
		first := token()
		time.Sleep(2870 * time.Second)
		require.Equal(t, first, token())
		time.Sleep(11 * time.Second)
		fresh := token()
		require.NotEqual(t, first, fresh)
		for _, c := range r.server.Calls() {
			if c.Resource == "serviceaccounts" {
				require.Equal(t, "token", c.Subresource)
			}
		}
		r.Keep([]*v1.Pod{{ObjectMeta: metav1.ObjectMeta{UID: "1"}}}, nil)
		require.Equal(t, fresh, token())
		require.Equal(t, 2, r.server.CountCalls("create", "serviceaccounts"))
		r.Keep(nil, nil)
		require.NotEqual(t, fresh, token())
		require.Equal(t, 3, r.server.CountCalls("create", "serviceaccounts"))
		ask.ServiceAccount = "none"
		_, err := r.Token(t.Context(), ask)
		require.ErrorContains(t, err, "token of service account ns/none")
	})
}

// Services returns the services of a namespace, once they have been read.
func TestServices(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		service := func(namespace, name string) *v1.Service {
			return &v1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"large": strings.Repeat("x", 1000)}},
				Spec:       v1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []v1.ServicePort{{Port: 80}}, Selector: map[string]string{"a": "b"}},
			}
		}
		r.server.Put(service("ns", "a"))
		r.server.Put(service("other", "b"))
		synctest.Wait()
		all, err := r.Services(t.Context(), "ns")
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, "10.0.0.1", all[0].Spec.ClusterIP)
		require.Len(t, all[0].Spec.Ports, 1)
		require.Empty(t, all[0].Annotations, "unused")
		require.Empty(t, all[0].Spec.Selector)
	})
	synctest.Test(t, func(t *testing.T) {
		o, err := objects.New(objects.Config{Client: apitest.Start(t).Client(t)})
		require.NoError(t, err)
		_, err = o.Services(t.Context(), "ns")
		require.ErrorIs(t, err, request.ErrNotSynced, "before Run")
	})
}

func TestRuntimeClasses(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		handler := func(class *string) (string, error) {
			return r.RuntimeHandler(t.Context(), &v1.Pod{Spec: v1.PodSpec{RuntimeClassName: class}})
		}
		got, err := handler(nil)
		require.NoError(t, err)
		require.Empty(t, got)
		require.Zero(t, r.server.CountCalls("list", "runtimeclasses"), "without a reference")
		r.server.Put(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "runsc"})
		got, err = handler(new("sandboxed"))
		require.NoError(t, err)
		require.Equal(t, "runsc", got)
		_, err = handler(new("none"))
		require.EqualError(t, err, `RuntimeClass "none": not found`)
	})
}

// Claims and related objects are never cached, except CSI drivers.
func TestClaimsAreNotCached(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		_, err := r.PersistentVolumeClaim(t.Context(), "ns", "c")
		require.ErrorIs(t, err, volume.ErrNotFound)
		_, err = r.PersistentVolume(t.Context(), "v")
		require.ErrorIs(t, err, volume.ErrNotFound)
		r.server.Put(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
		r.server.Put(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}})
		claim, err := r.PersistentVolumeClaim(t.Context(), "ns", "c")
		require.NoError(t, err)
		require.Equal(t, "c", claim.Name)
		pv, err := r.PersistentVolume(t.Context(), "v")
		require.NoError(t, err)
		require.Equal(t, "v", pv.Name)

		r.server.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Delay: time.Second} })
		_, err = r.CSIDriver("d")
		require.ErrorContains(t, err, "not read yet")
		time.Sleep(3 * time.Second) // time for a list and a watch
		synctest.Wait()
		_, err = r.CSIDriver("d")
		require.True(t, volumeobjects.IsNotFound(err), "%v", err)
		r.server.Put(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
		synctest.Wait()
		driver, err := r.CSIDriver("d")
		require.NoError(t, err)
		require.Equal(t, "d", driver.Name)
	})
}

// PublishContext returns the attacher's metadata once the volume is attached.
func TestPublishContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}}
		ask := func() (map[string]string, error) { return r.PublishContext(t.Context(), "csi-1") }
		_, err := ask()
		require.ErrorIs(t, err, volume.ErrNotFound)
		r.server.Put(a)
		_, err = ask()
		require.EqualError(t, err, "VolumeAttachment csi-1: not attached yet")
		a.Status.AttachError = &storagev1.VolumeError{Message: "no such disk"}
		r.server.Put(a)
		_, err = ask()
		require.ErrorContains(t, err, "no such disk")
		a.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "/dev/x"}}
		r.server.Put(a)
		got, err := ask()
		require.NoError(t, err)
		require.Equal(t, "/dev/x", got["device"])
	})
}

// Trust bundles are read in the version that the server serves.
func TestTrustBundles(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				put := func(name, signer, pem string) {
					meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}
					if version == "v1" {
						r.server.Put(&certv1.ClusterTrustBundle{ObjectMeta: meta, Spec: certv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: pem}})
						return
					}
					r.server.Put(&certv1beta1.ClusterTrustBundle{ObjectMeta: meta, Spec: certv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: pem}})
				}
				if version != "v1" {
					var asked atomic.Bool
					r.server.SetFault(func(c apitest.Call) apitest.Fault {
						if c.Resource == "clustertrustbundles" && !asked.Swap(true) {
							return apitest.Fault{Status: 404} // v1 is requested first
						}
						return apitest.Fault{}
					})
				}
				put("a", "example.com/s", "A")
				put("b", "example.com/s", "B")
				put("c", "", "C")
				pem, err := r.TrustBundle(t.Context(), "c")
				require.NoError(t, err)
				require.Equal(t, "C", pem)
				_, err = r.TrustBundle(t.Context(), "d")
				require.True(t, volumeobjects.IsNotFound(err))
				of := func(s *metav1.LabelSelector) []string {
					out, err := r.TrustBundlesOf(t.Context(), "example.com/s", s)
					require.NoError(t, err)
					return out
				}
				require.ElementsMatch(t, []string{"A", "B"}, of(&metav1.LabelSelector{}), "an empty selector matches all")
				require.Empty(t, of(nil), "a nil selector matches none")
				require.Equal(t, []string{"B"}, of(&metav1.LabelSelector{MatchLabels: map[string]string{"name": "b"}}))
				r.changesOf("", "")
				put("b", "example.com/s", "B2")
				synctest.Wait()
				require.Equal(t, 1, r.changesOf("ClusterTrustBundle", "b"))
				require.ElementsMatch(t, []string{"A", "B2"}, of(&metav1.LabelSelector{}))
			})
		})
	}
}

func TestConfig(t *testing.T) {
	_, err := objects.New(objects.Config{})
	require.EqualError(t, err, "objects: Config.Client is required")
	bubble(t, func(t *testing.T, r *rig) {
		require.ErrorIs(t, r.Run(t.Context()), objects.ErrAlreadyRun)
	})
}

// KEP-4412: a plug-in receives the current account, and a token for its audience that is bound to
// the pod.
func TestAccounts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pod := user("a", "b")
		accounts := r.Accounts()
		_, err := accounts.ServiceAccount(t.Context(), "ns", "default")
		require.ErrorIs(t, err, volume.ErrNotFound)
		_, err = accounts.Token(t.Context(), pod, "registry")
		require.Error(t, err)
		r.server.Put(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "default", Annotations: map[string]string{"a": "b"}}})
		account, err := accounts.ServiceAccount(t.Context(), "ns", "default")
		require.NoError(t, err)
		require.Equal(t, "b", account.Annotations["a"])
		token, err := accounts.Token(t.Context(), pod, "registry")
		require.NoError(t, err)
		require.Equal(t, "token-1", token)
		other, err := accounts.Token(t.Context(), pod, "another")
		require.NoError(t, err)
		require.NotEqual(t, token, other)
	})
}
