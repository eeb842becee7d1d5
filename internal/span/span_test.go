package span_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/podwright/podwright/internal/span"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type key struct{}

func TestBegin(t *testing.T) {
	ctx, end := span.Begin(t.Context(), nil, "a")
	require.Equal(t, t.Context(), ctx)
	end(errors.New("without a span"))

	var said []any
	ctx, end = span.Begin(t.Context(), func(ctx context.Context, name string, attributes ...slog.Attr) (context.Context, func(error)) {
		said = append(said, name, attributes)
		return context.WithValue(ctx, key{}, "of the span"), func(err error) { said = append(said, err) }
	}, "a", slog.String("k", "v"))
	require.Equal(t, "of the span", ctx.Value(key{}))
	failure := errors.New("failed")
	end(failure)
	require.Equal(t, []any{"a", []slog.Attr{slog.String("k", "v")}, failure}, said)
}
