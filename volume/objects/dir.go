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

// ErrAlreadyRun is returned by the second call of Run.
var ErrAlreadyRun = fields.AlreadyRun("objects")

// DirConfig configures a Dir.
type DirConfig struct {
	// Path is the folder. Required. It may be created later; until then it counts as empty. If
	// it disappears, its last objects are served.
	Path string
	// OnChange is called with the objects that were added, changed or removed, after the
	// getters return their new state. Calls do not overlap. It should not block. Optional.
	OnChange func(changed []volume.Object)
	// Period is the interval of scans without a change event. Default: 20 s.
	Period time.Duration
	// NoWatch disables inotify. Changes are then found by the next scan after Period. A
	// synctest bubble requires it.
	NoWatch bool
	// Logger receives one line per new problem. Optional: without it they are discarded.
	Logger *slog.Logger
}

// Dir serves the objects in a folder: see the package documentation. It implements ConfigMaps,
// Secrets, Tokens, TrustBundles and CSIDrivers. Create it with NewDir. It is safe for
// concurrent use.
//
// The getters return values from memory, also after the end of Run. Before the first scan of Run
// they wait for it, or for the end of their context; CSIDriver fails. IsNotFound is true for an
// absent file, and false for an invalid file without an earlier valid version.
type Dir struct {
	cfg   DirConfig
	ran   atomic.Bool
	hints *fs.Hints
	watch fs.WatchFunc
	// listings and readings belong to the goroutine of Run.
	listings fs.Reads[listing]
	readings fs.Reads[reading]
	// read and list are replaced by tests.
	read func(path string, known stamp) reading
	list func(path string) listing

	scanned chan struct{} // closed after the first scan

	mu       sync.Mutex
	catalog  *catalog // changed by Run only
	existed  bool     // the folder has existed
	problems []Problem
}

var (
	_ ConfigMaps   = (*Dir)(nil)
	_ Secrets      = (*Dir)(nil)
	_ Tokens       = (*Dir)(nil)
	_ TrustBundles = (*Dir)(nil)
	_ CSIDrivers   = (*Dir)(nil)
)

// NewDir checks the configuration and returns a Dir.
func NewDir(cfg DirConfig) (*Dir, error) {
	f := fields.Of("objects: DirConfig")
	f.Required("Path", cfg.Path)
	fields.Number(f, "Period", &cfg.Period, 20*time.Second)
	f.Checked(fs.CheckBubble(cfg.NoWatch))
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
		scanned: make(chan struct{}), catalog: newCatalog(),
	}
	d.watch = fs.Tree{Root: cfg.Path, Below: d.watched}.Watch
	if cfg.NoWatch {
		d.watch = fs.NoWatch
	}
	return d, nil
}

// Problems returns the current problems, ordered by path.
func (d *Dir) Problems() []Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.problems)
}

// CheckHealth returns an error with the files and folders that cannot be read. Invalid files do
// not affect it: see Problems.
func (d *Dir) CheckHealth() error {
	var errs []error
	for _, p := range d.Problems() {
		if p.NoAnswer {
			errs = append(errs, fmt.Errorf("objects: %s %s", p.Path, p.Message))
		}
	}
	return run.Join(errs...)
}

func (d *Dir) wait(ctx context.Context) error {
	select {
	case <-d.scanned:
		return nil
	default:
	}
	select {
	case <-d.scanned:
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

// Token implements Tokens. It returns the token in the service account's file for every pod,
// until the token expires. It fails after that, and if the token lacks a requested audience.
func (d *Dir) Token(ctx context.Context, r TokenRequest) (Token, error) {
	o := volume.Object{Kind: KindServiceAccount, Namespace: r.Namespace, Name: r.ServiceAccount}
	value, err := d.find(ctx, o)
	t, _ := value.(tokenFile)
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
	case <-d.scanned:
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
	b, _ := value.(namedBundle)
	return b.pem, err
}

// TrustBundlesOf implements TrustBundles. It fails while any bundle is unreadable, because an
// incomplete result would remove trust.
func (d *Dir) TrustBundlesOf(ctx context.Context, signer string, selector *metav1.LabelSelector) ([]string, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.catalog.unknown("trustbundles/x") {
		return nil, errors.New("objects: the folder trustbundles cannot be listed")
	}
	var all []bundle
	for _, e := range d.catalog.files {
		if e.object.Kind != KindTrustBundle {
			continue
		}
		b, ok := e.value.(namedBundle)
		if !ok {
			return nil, fmt.Errorf("%s: %s: %s", e.object, e.path, cmp.Or(e.bad, fs.Silence))
		}
		all = append(all, b.bundle)
	}
	slices.SortFunc(all, func(a, b bundle) int { return cmp.Compare(a.pem, b.pem) })
	return selected(all, signer, selector)
}
