package objects

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podwright/podwright/volume"
)

// Memory has objects in memory, for tests. It implements ConfigMaps, Secrets, Tokens,
// TrustBundles and CSIDrivers. The zero value is empty. Objects must not be changed after they
// were added. Set its fields before use. It is safe for concurrent use.
type Memory struct {
	// Fail is called for each read of an object. If it returns an error, the read fails with
	// it. Optional.
	Fail func(o volume.Object) error
	// IssueToken issues the tokens. Optional: without it Token returns those of PutToken.
	IssueToken func(r TokenRequest) (Token, error)

	mu       sync.Mutex
	objects  map[volume.Object]any
	reads    map[volume.Object]int
	onChange []func([]volume.Object)
}

var (
	_ ConfigMaps   = (*Memory)(nil)
	_ Secrets      = (*Memory)(nil)
	_ Tokens       = (*Memory)(nil)
	_ TrustBundles = (*Memory)(nil)
	_ CSIDrivers   = (*Memory)(nil)
)

// OnChange registers f. It is called with each object that is added, replaced or removed, in
// the goroutine of that change.
func (m *Memory) OnChange(f func([]volume.Object)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onChange = append(m.onChange, f)
}

// PutConfigMap adds or replaces a config map.
func (m *Memory) PutConfigMap(c *v1.ConfigMap) {
	m.put(volume.Object{Kind: KindConfigMap, Namespace: c.Namespace, Name: c.Name}, c)
}

// PutSecret adds or replaces a secret. It merges StringData into Data, as the API server does.
func (m *Memory) PutSecret(s *v1.Secret) {
	m.put(volume.Object{Kind: KindSecret, Namespace: s.Namespace, Name: s.Name}, withStringData(s))
}

func withStringData(s *v1.Secret) *v1.Secret {
	if len(s.StringData) == 0 {
		return s
	}
	s = s.DeepCopy()
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
	return s
}

// PutToken sets the token of a service account.
func (m *Memory) PutToken(namespace, account string, t Token) {
	m.put(volume.Object{Kind: KindServiceAccount, Namespace: namespace, Name: account}, t)
}

type bundle struct {
	signer string
	labels map[string]string
	pem    string
}

// PutTrustBundle adds or replaces a trust bundle. signer may be empty.
func (m *Memory) PutTrustBundle(name, signer string, labels map[string]string, pem string) {
	m.put(volume.Object{Kind: KindTrustBundle, Name: name}, bundle{signer, labels, pem})
}

// PutCSIDriver adds or replaces a CSIDriver object.
func (m *Memory) PutCSIDriver(d *storagev1.CSIDriver) {
	m.put(volume.Object{Kind: KindCSIDriver, Name: d.Name}, d)
}

// Remove removes an object.
func (m *Memory) Remove(o volume.Object) { m.put(o, nil) }

// Reads returns the number of reads of an object.
func (m *Memory) Reads(o volume.Object) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads[o]
}

func (m *Memory) put(o volume.Object, value any) {
	m.mu.Lock()
	if m.objects == nil {
		m.objects = map[volume.Object]any{}
	}
	if value == nil {
		delete(m.objects, o)
	} else {
		m.objects[o] = value
	}
	callbacks := m.onChange
	m.mu.Unlock()
	for _, f := range callbacks {
		f([]volume.Object{o})
	}
}

// get returns an object as T, the type of its kind.
func get[T any](m *Memory, o volume.Object) (value T, err error) {
	if m.Fail != nil {
		if err := m.Fail(o); err != nil {
			return value, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads == nil {
		m.reads = map[volume.Object]int{}
	}
	m.reads[o]++
	value, ok := m.objects[o].(T)
	if !ok {
		return value, NotFound(o)
	}
	return value, nil
}

// ConfigMap implements ConfigMaps.
func (m *Memory) ConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return get[*v1.ConfigMap](m, volume.Object{Kind: KindConfigMap, Namespace: namespace, Name: name})
}

// Secret implements Secrets.
func (m *Memory) Secret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	return get[*v1.Secret](m, volume.Object{Kind: KindSecret, Namespace: namespace, Name: name})
}

// Token implements Tokens.
func (m *Memory) Token(_ context.Context, r TokenRequest) (Token, error) {
	o := volume.Object{Kind: KindServiceAccount, Namespace: r.Namespace, Name: r.ServiceAccount}
	if m.IssueToken == nil {
		return get[Token](m, o)
	}
	if m.Fail != nil {
		if err := m.Fail(o); err != nil {
			return Token{}, err
		}
	}
	return m.IssueToken(r)
}

// CSIDriver implements CSIDrivers.
func (m *Memory) CSIDriver(name string) (*storagev1.CSIDriver, error) {
	return get[*storagev1.CSIDriver](m, volume.Object{Kind: KindCSIDriver, Name: name})
}

// TrustBundle implements TrustBundles.
func (m *Memory) TrustBundle(_ context.Context, name string) (string, error) {
	b, err := get[bundle](m, volume.Object{Kind: KindTrustBundle, Name: name})
	return b.pem, err
}

// TrustBundlesOf implements TrustBundles.
func (m *Memory) TrustBundlesOf(_ context.Context, signer string, selector *metav1.LabelSelector) ([]string, error) {
	if m.Fail != nil {
		if err := m.Fail(volume.Object{Kind: KindTrustBundle}); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []bundle
	for _, value := range m.objects {
		if b, ok := value.(bundle); ok {
			all = append(all, b)
		}
	}
	return selected(all, signer, selector)
}

func selected(all []bundle, signer string, selector *metav1.LabelSelector) (out []string, err error) {
	match, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.signer == signer && match.Matches(labels.Set(b.labels)) {
			out = append(out, b.pem)
		}
	}
	return out, nil
}
