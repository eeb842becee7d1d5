package apitest

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

const protobuf = "application/vnd.kubernetes.protobuf"

type wire struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
}

func newWire(scheme *runtime.Scheme) wire {
	return wire{scheme, serializer.NewCodecFactory(scheme)}
}

func (w wire) info(mediaType string) (runtime.SerializerInfo, bool) {
	name, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return runtime.SerializerInfo{}, false
	}
	return runtime.SerializerInfoForMediaType(w.codecs.SupportedMediaTypes(), name)
}

// accepted returns the first supported type in the Accept header, or else JSON.
func (w wire) accepted(r *http.Request) runtime.SerializerInfo {
	for _, t := range strings.Split(r.Header.Get("Accept"), ",") {
		if info, ok := w.info(t); ok && info.StreamSerializer != nil {
			return info
		}
	}
	info, _ := w.info("application/json")
	return info
}

func (w wire) decode(contentType string, body []byte, gvk schema.GroupVersionKind) (runtime.Object, error) {
	info, ok := w.info(contentType)
	if !ok {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "", schema.GroupResource{}, "", contentType, 0, true)
	}
	obj, _, err := w.codecs.WithoutConversion().DecoderToVersion(info.Serializer, gvk.GroupVersion()).Decode(body, &gvk, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

// encode encodes an object. extra adds an unknown field.
func (w wire) encode(info runtime.SerializerInfo, obj runtime.Object, version schema.GroupVersion, extra bool) ([]byte, error) {
	var out bytes.Buffer
	own := obj.DeepCopyObject() // the encoder sets the kind
	if err := w.codecs.WithoutConversion().EncoderForVersion(info.Serializer, version).Encode(own, &out); err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", obj, err)
	}
	if _, isStatus := obj.(*metav1.Status); isStatus || !extra {
		return out.Bytes(), nil
	}
	return withUnknownField(info.MediaType, out.Bytes())
}

func withUnknownField(mediaType string, data []byte) ([]byte, error) {
	if mediaType != protobuf {
		rest, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte("{"))
		if !ok {
			return nil, fmt.Errorf("no object: %.20q", data)
		}
		return append([]byte(`{"fieldOfTheFuture":{"a":[1]},`), rest...), nil
	}
	prefix := []byte("k8s\x00")
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(bytes.TrimPrefix(data, prefix)); err != nil {
		return nil, err
	}
	unknown.Raw = append(unknown.Raw, 0xc0, 0x3e, 0x01) // field 1000, the number 1
	data, err := unknown.Marshal()
	return append(prefix, data...), err
}

// event encodes an event of a watch, without its frame.
func (w wire) event(info runtime.SerializerInfo, kind string, obj runtime.Object, version schema.GroupVersion, extra bool) ([]byte, error) {
	raw, err := w.encode(info, obj, version, extra)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = info.StreamSerializer.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}, &out)
	return out.Bytes(), err
}
