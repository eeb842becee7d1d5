package podsource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/internal/podfacts"
)

// Decoder turns a manifest, YAML or JSON, into a static pod. The zero value
// refuses everything but a NodeName makes it useful; it is safe for concurrent
// use.
type Decoder struct {
	// NodeName is the name of the node. Required: it becomes part of the pod's
	// name and UID.
	NodeName string
	// Volumes are the kinds of volumes that can be mounted, by their field names
	// in v1.VolumeSource ("hostPath", "emptyDir"). nil means hostPath only. A
	// manifest that uses another kind is refused.
	Volumes []string
	// Objects are the kinds of API objects that a static pod may refer to
	// because somebody resolves them without an API server: "Secret",
	// "ConfigMap", "ServiceAccount", "PersistentVolumeClaim", "ResourceClaim".
	// nil means none: a manifest that refers to one is refused.
	Objects []string
	// EvictedByTaints leaves the pod without the toleration of every NoExecute
	// taint that pods from files get.
	EvictedByTaints bool
	// Check refuses what the node cannot do, one error per field, named by its
	// path. It sees pods that are valid and have their defaults, and must not
	// change them. nil refuses nothing more.
	Check func(pod *v1.Pod) []error
}

// Decode decodes one manifest. origin says where it comes from, such as
// "file:/etc/kubernetes/manifests/web.yaml"; it becomes part of the UID of a pod
// whose manifest sets none.
//
// The errors name the field that is wrong. The caller adds the origin.
func (d Decoder) Decode(manifest []byte, origin string) (*v1.Pod, error) {
	if d.NodeName == "" {
		return nil, errors.New("podsource: Decoder.NodeName is required")
	}
	pod, err := parse(manifest)
	if err != nil {
		return nil, err
	}
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

// errEmpty is the error of a manifest without content.
var errEmpty = errors.New("the manifest is empty")

// parse decodes strictly: unknown and repeated fields are errors.
func parse(manifest []byte) (*v1.Pod, error) {
	manifest = bytes.TrimPrefix(manifest, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(manifest) || bytes.IndexByte(manifest, 0) >= 0 {
		return nil, errors.New("the manifest is not text: neither YAML nor JSON")
	}
	switch n := countDocuments(manifest); {
	case n == 0:
		return nil, errEmpty
	case n > 1:
		return nil, fmt.Errorf("the manifest holds %d YAML documents: write one pod per file", n)
	}
	if err := checkKind(manifest); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	s := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme,
		serializer.SerializerOptions{Yaml: true, Strict: true})
	pod := &v1.Pod{}
	if _, _, err := s.Decode(manifest, nil, pod); err != nil {
		if where := badQuantity(manifest); where != nil {
			return nil, where
		}
		return nil, cleanError(err)
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	return pod, nil
}

// checkKind looks at kind and apiVersion alone, so that another object is called
// what it is instead of a pod with unknown fields.
func checkKind(manifest []byte) error {
	var root any
	if err := yaml.Unmarshal(manifest, &root); err != nil {
		return cleanError(err)
	}
	fields, ok := root.(map[string]any)
	if !ok {
		return errors.New("the manifest is not an object with the fields of a Pod")
	}
	kind, version := fields["kind"], fields["apiVersion"]
	switch {
	case kind == nil:
		return errors.New(`kind: Required value: must be "Pod"`)
	case kind != "Pod":
		return fmt.Errorf("kind: Unsupported value: %.80q: must be \"Pod\"", fmt.Sprint(kind))
	case version == nil:
		return errors.New(`apiVersion: Required value: must be "v1"`)
	case version != "v1":
		return fmt.Errorf("apiVersion: Unsupported value: %.80q: must be \"v1\"", fmt.Sprint(version))
	}
	return nil
}

// countDocuments counts the YAML documents that have content. JSON is one.
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

// isMarker tells whether a line is a document marker, alone or before a space.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}

func hasContent(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#' && line[0] != '%'
}

// cleanError puts a decoder's error on one line and cuts what is absurdly long.
func cleanError(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(text, "error converting YAML to JSON: ")
	const most = 500
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return errors.New(text)
}

// makeStatic gives a valid, defaulted pod the identity of a static pod.
func (d Decoder) makeStatic(pod *v1.Pod, origin string) error {
	if pod.UID == "" {
		uid, err := hashUID(pod, d.NodeName, origin)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	pod.Name = d.podName(pod.Name)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podfacts.ConfigHash] = string(pod.UID)
	pod.Spec.NodeName = d.NodeName
	if !d.EvictedByTaints {
		tolerateNoExecute(pod)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	return nil
}

// podName is the name that a static pod gets on this node.
func (d Decoder) podName(name string) string { return name + "-" + strings.ToLower(d.NodeName) }

// hashUID derives a UID: the same manifest at the same place on the same node
// is the same pod, and any change makes another one.
func hashUID(pod *v1.Pod, node, origin string) (types.UID, error) {
	content, err := json.Marshal(pod)
	if err != nil {
		return "", fmt.Errorf("hashing the pod: %w", err)
	}
	h := fnv.New128a()
	h.Write(content)
	fmt.Fprintf(h, "host:%s", node)
	fmt.Fprint(h, origin)
	return types.UID(fmt.Sprintf("%x", h.Sum(nil))), nil
}

func tolerateNoExecute(pod *v1.Pod) {
	all := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	for _, t := range pod.Spec.Tolerations {
		if t == all {
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, all)
}
