package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podwright/podwright/internal/fields"
	"github.com/podwright/podwright/internal/fs"
	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/volume"
)

// ErrAlreadyRun is returned by Run when it has been called before.
var ErrAlreadyRun = fields.AlreadyRun("objects")

// DirConfig configures a Dir.
type DirConfig struct {
	// Path is the folder. Required. It may appear later.
	Path string
	// OnChange is called with the objects that have changed, come or gone, after that
	// can be seen, from one goroutine. It should not block. nil tells nobody.
	OnChange func(changed []volume.Object)
	// Period is the pause between two looks that nothing prompted; default 20 s.
	Period time.Duration
	// NoWatch is true for a Dir without inotify, which finds changes after a Period. A
	// synctest bubble needs it.
	NoWatch bool
	// Logger receives one line per new problem; nil discards.
	Logger *slog.Logger
}

// Dir is the objects in a folder: see the package's documentation. It is a ConfigMaps,
// Secrets, Tokens, TrustBundles and CSIDrivers. Use NewDir.
//
// The getters answer from memory. Until Run has looked at the folder once, they wait for
// that; CSIDriver fails.
type Dir struct {
	cfg   DirConfig
	ran   atomic.Bool
	hints *fs.Hints
	watch fs.WatchFunc
	// These two belong to the goroutine that looks.
	listings fs.Reads[listing]
	readings fs.Reads[reading]
	// Tests replace these.
	read func(path string, known stamp) reading
	list func(path string) listing

	looked chan struct{} // closed after the first look

	mu       sync.Mutex
	catalog  *catalog // changed by Run only
	seen     bool     // the folder was there once
	problems []Problem
}

var (
	_ ConfigMaps   = (*Dir)(nil)
	_ Secrets      = (*Dir)(nil)
	_ Tokens       = (*Dir)(nil)
	_ TrustBundles = (*Dir)(nil)
	_ CSIDrivers   = (*Dir)(nil)
)

// NewDir returns a Dir.
func NewDir(cfg DirConfig) (*Dir, error) {
	f := fields.Of("objects: DirConfig")
	f.Required("Path", cfg.Path)
	fields.Number(f, "Period", &cfg.Period, 20*time.Second)
	fields.Default(&cfg.OnChange, func([]volume.Object) {})
	fields.Logger(&cfg.Logger)
	if err := f.Err(); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("objects: DirConfig.Path: %w", err)
	}
	cfg.Path = path
	d := &Dir{
		cfg: cfg, hints: fs.NewHints(), read: readFile, list: listFolder,
		looked: make(chan struct{}), catalog: newCatalog(),
	}
	d.watch = fs.Tree{Root: cfg.Path, Below: d.watched}.Watch
	if cfg.NoWatch {
		d.watch = fs.NoWatch
	}
	return d, nil
}

// Problems returns what cannot be used at the moment, by path.
func (d *Dir) Problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.problems)
}

// CheckHealth returns an error that names what does not let itself be read. Files that
// are wrong are no matter of health: see Problems.
func (d *Dir) CheckHealth() error {
	var errs []error
	for _, p := range d.Problems() {
		if p.NoAnswer {
			errs = append(errs, fmt.Errorf("objects: %s %s", p.Path, p.Message))
		}
	}
	return run.Join(errs...)
}

// wait waits for the first look.
func (d *Dir) wait(ctx context.Context) error {
	select {
	case <-d.looked:
		return nil
	default:
	}
	select {
	case <-d.looked:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("objects: waiting for Run to read %s: %w", d.cfg.Path, run.EndOf(ctx))
	}
}

func (d *Dir) find(ctx context.Context, o volume.Object) (any, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.catalog.find(o)
}

// ConfigMap implements ConfigMaps.
func (d *Dir) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	value, err := d.find(ctx, volume.Object{Kind: KindConfigMap, Namespace: namespace, Name: name})
	c, _ := value.(*v1.ConfigMap)
	return c, err
}

// Secret implements Secrets.
func (d *Dir) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	value, err := d.find(ctx, volume.Object{Kind: KindSecret, Namespace: namespace, Name: name})
	s, _ := value.(*v1.Secret)
	return s, err
}

// Token implements Tokens: the token in the service account's file, whatever the pod and
// for as long as it is good. One for other audiences is refused.
func (d *Dir) Token(ctx context.Context, r TokenRequest) (Token, error) {
	o := volume.Object{Kind: KindServiceAccount, Namespace: r.Namespace, Name: r.ServiceAccount}
	value, err := d.find(ctx, o)
	t, _ := value.(heldTokenFile)
	if err != nil {
		return Token{}, err
	}
	for _, audience := range r.Audiences {
		if !slices.Contains(t.audiences, audience) {
			return Token{}, fmt.Errorf("%s: tokens/%s/%s.yaml: spec.audiences: the token is not for %q", o, r.Namespace, r.ServiceAccount, audience)
		}
	}
	if !t.Expires.IsZero() && !time.Now().Before(t.Expires) {
		return Token{}, fmt.Errorf("%s: tokens/%s/%s.yaml: the token expired at %s", o, r.Namespace, r.ServiceAccount, t.Expires.UTC().Format(time.RFC3339))
	}
	return t.Token, nil
}

// CSIDriver implements CSIDrivers.
func (d *Dir) CSIDriver(name string) (*storagev1.CSIDriver, error) {
	select {
	case <-d.looked:
	default:
		return nil, fmt.Errorf("objects: Run has not read %s yet", d.cfg.Path)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	value, err := d.catalog.find(volume.Object{Kind: KindCSIDriver, Name: name})
	driver, _ := value.(*storagev1.CSIDriver)
	return driver, err
}

// TrustBundle implements TrustBundles.
func (d *Dir) TrustBundle(ctx context.Context, name string) (string, error) {
	value, err := d.find(ctx, volume.Object{Kind: KindTrustBundle, Name: name})
	b, _ := value.(heldBundle)
	return b.pem, err
}

// TrustBundlesOf implements TrustBundles. While something of the bundles is not known,
// it is an error: too few would be trusted.
func (d *Dir) TrustBundlesOf(ctx context.Context, signer string, selector *metav1.LabelSelector) ([]string, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.catalog.unknown("trustbundles/x") {
		return nil, errors.New("objects: it is not known which trust bundles there are")
	}
	var all []bundle
	for _, e := range d.catalog.files {
		if e.object.Kind != KindTrustBundle {
			continue
		}
		b, ok := e.value.(heldBundle)
		if !ok {
			return nil, fmt.Errorf("%s: %s: %s", e.object, e.path, cmp.Or(e.bad, fs.Silence))
		}
		all = append(all, b.bundle)
	}
	slices.SortFunc(all, func(a, b bundle) int { return cmp.Compare(a.pem, b.pem) })
	return selected(all, signer, selector)
}
