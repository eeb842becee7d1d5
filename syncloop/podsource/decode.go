package podsource

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/yamlmerge"
)

// Decoder decodes a manifest, YAML or JSON, into a static pod. NodeName is required. It is safe
// for concurrent use.
type Decoder struct {
	// NodeName is the name of the node. It becomes part of the pod's name and UID. Required.
	NodeName string
	// Volumes are the supported kinds of volumes, by their field names in v1.VolumeSource
	// ("hostPath", "emptyDir"). Manifests with other kinds are refused. Default if nil: hostPath
	// only.
	Volumes []string
	// Objects are the kinds of API objects that a static pod may refer to because the agent
	// resolves them without an API server: "Secret", "ConfigMap", "ServiceAccount",
	// "ClusterTrustBundle", "CSIDriver", "PersistentVolumeClaim", "ResourceClaim". Manifests that
	// refer to other kinds are refused. Default if nil: none.
	Objects []string
	// EvictedByTaints omits the toleration of all NoExecute taints that pods from files get.
	EvictedByTaints bool
	// Check returns one error for each field that the node does not support, with the field's
	// path. It is called for valid pods with defaults and must not change them. Optional.
	Check func(pod *v1.Pod) []error
	// UID returns the UID of a pod without metadata.uid. pod.UID is the derived one, which keeps a
	// pod unless its manifest changes. It is called again whenever the manifest is read, may be
	// called concurrently, and must not change the pod. Default: the derived UID.
	UID func(pod *v1.Pod, origin string) types.UID
}

// Decode decodes one manifest. origin is its location, such as
// "file:/etc/kubernetes/manifests/web.yaml" or "url:http://server/pods". The UID of a pod without
// metadata.uid is derived from the pod, the origin and the node's name. For an origin that begins
// with "url:" the node's name is omitted, so that pods from one URL have the same UID on all
// nodes.
//
// The errors name the invalid field. The caller adds the origin.
func (d Decoder) Decode(manifest []byte, origin string) (*v1.Pod, error) {
	if d.NodeName == "" {
		return nil, errors.New("podsource: Decoder.NodeName is required")
	}
	manifest, err := readable(manifest)
	if err != nil {
		return nil, err
	}
	if err := checkKind(manifest, "Pod"); err != nil {
		return nil, err
	}
	if err := checkValues(manifest); err != nil {
		return nil, err
	}
	pod, err := parse(manifest)
	if err != nil {
		return nil, err
	}
	return d.finish(pod, origin)
}

func (d Decoder) finish(pod *v1.Pod, origin string) (*v1.Pod, error) {
	convert(pod)
	setDefaults(pod)
	if err := d.validate(pod); err != nil {
		return nil, err
	}
	if d.Check != nil {
		if err := joinErrors(d.Check(pod)); err != nil {
			return nil, err
		}
	}
	if err := d.makeStatic(pod, origin); err != nil {
		return nil, err
	}
	return pod, nil
}

var errEmpty = errors.New("the manifest is empty")

// readable returns a manifest without its byte order mark and merge keys. It returns an error unless
// the manifest is text with one document of bounded size.
func readable(manifest []byte) ([]byte, error) {
	manifest = bytes.TrimPrefix(manifest, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(manifest) || bytes.Contains(manifest, []byte{0}) {
		return nil, errors.New("the manifest is not text: neither YAML nor JSON")
	}
	switch n := countDocuments(manifest); {
	case n == 0:
		return nil, errEmpty
	case n > 1:
		return nil, fmt.Errorf("the manifest has %d YAML documents: write one pod per file", n)
	}
	if err := checkSize(manifest); err != nil {
		return nil, err
	}
	return yamlmerge.Expand(manifest)
}

// parse decodes a pod strictly: unknown and repeated fields are errors.
func parse(manifest []byte) (*v1.Pod, error) {
	scheme := runtime.NewScheme()
	s := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme,
		serializer.SerializerOptions{Yaml: true, Strict: true})
	pod := &v1.Pod{}
	if _, _, err := s.Decode(manifest, nil, pod); err != nil {
		return nil, cleanError(err)
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod, nil
}

// checkKind checks kind and apiVersion before the fields, so that the error for another object
// names its kind instead of unknown fields.
func checkKind(manifest []byte, want string) error {
	var root any
	if err := yaml.Unmarshal(manifest, &root); err != nil {
		if where := notFinite(manifest); where != nil {
			return where
		}
		return cleanError(err)
	}
	fields, ok := root.(map[string]any)
	if !ok {
		return errors.New("the manifest must be an object with the fields of a Pod")
	}
	return checkType(fields, want)
}

func checkType(fields map[string]any, want string) error {
	kind, version := fields["kind"], fields["apiVersion"]
	switch {
	case kind == nil:
		return fmt.Errorf("kind: Required value: must be %q", want)
	case kind != want:
		return fmt.Errorf("kind: Unsupported value: %.80q: must be %q", fmt.Sprint(kind), want)
	case version == nil:
		return errors.New(`apiVersion: Required value: must be "v1"`)
	case version != "v1":
		return fmt.Errorf("apiVersion: Unsupported value: %.80q: must be \"v1\"", fmt.Sprint(version))
	}
	return nil
}

func countDocuments(manifest []byte) int {
	n, content := 0, false
	for line := range bytes.Lines(manifest) {
		switch {
		case isMarker(line, "---"):
			rest := bytes.TrimSpace(line[3:])
			content = len(rest) > 0 && rest[0] != '#'
			if content {
				n++
			}
		case isMarker(line, "..."):
			content = false
		case !content && hasContent(line):
			content = true
			n++
		}
	}
	return n
}

// isMarker reports whether a line is a document marker, alone or before a space.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

func hasContent(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#' && line[0] != '%'
}

// cleanError puts a decoder's error on one line of at most 500 bytes.
func cleanError(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(text, "error converting YAML to JSON: ")
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return errors.New(text)
}
