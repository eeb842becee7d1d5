package cri

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	encproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is grpc's own for protobuf, but that it decodes an answer from a buffer of about its
// size. grpc takes 1 MiB for each above 32 KiB, as are the lists of 100 pods, and keeps some.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(encproto.Name)} }

// answers are the buffers for answers, by size.
var answers = mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20)

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	into, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	buf := data.MaterializeToBuffer(answers)
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), into)
}
