"""Instructions for sums of products that stay in registers, for code that is generated.

A tile is so many rows of so many vectors. Numba keeps no array in registers,
and BLAS copies its operands before it multiplies them: for few components that
takes as long as the products.
"""

from __future__ import annotations

import numba
from llvmlite import binding, ir

from majorica.kernels.machine import ask_for, place, repeat


def has(*features: str) -> bool:
    """Whether code is compiled for a processor with these features; no, if Numba was told to compile for another."""
    config, host = numba.config, binding.get_host_cpu_features()
    other = config.CPU_NAME not in (None, binding.get_host_cpu_name()) or config.CPU_FEATURES is not None
    return not other and bool(config.ENABLE_AVX) and all(host.get(feature, False) for feature in features)


#: Bytes of a vector, and vectors side by side in a tile of four rows: what the processor has registers for.
VECTOR, MOST = (64, 4) if has("avx512f") else (32, 2)
#: Whether the processor takes a vector of 64 bytes in two halves, so that two of 32 are as quick.
HALVES = has("avx512vl") and binding.get_host_cpu_name() == "znver4"
#: Product and sum may be one instruction, where there is one.
FUSED = ("contract",)


def _name(kind):
    """What LLVM calls a vector."""
    number = kind.element
    if isinstance(number, ir.IntType):
        return f"v{kind.count}i{number.width}"
    return f"v{kind.count}f{64 if number == ir.DoubleType() else 32}"


class Tile:
    """Writes instructions for numbers of `dtype`, in vectors of so many bytes; pointers are to such numbers."""

    def __init__(self, context, builder, dtype, size=VECTOR):
        self.context, self.builder = context, builder
        self.number, self.item = context.get_data_type(dtype), dtype.bitwidth // 8
        self.lanes = size // self.item
        self.kind, self.mask = ir.VectorType(self.number, self.lanes), ir.VectorType(ir.IntType(1), self.lanes)
        self.name = _name(self.kind)

    def whole(self, value):
        """An integer constant."""
        return ir.Constant(ir.IntType(64), value)

    def beside(self, pointer, *steps):
        """The pointer moved by the product of `steps`, integers or values."""
        product = self.whole(1)
        for step in steps:
            product = self.builder.mul(product, self.whole(step) if isinstance(step, int) else step)
        return self.builder.gep(pointer, [product])

    def point(self, kind, array, index):
        """Where ``array[index]`` lies."""
        return place(self.context, self.builder, kind, array, index)

    def load(self, pointer):
        """The vector that begins there."""
        return self.builder.load(self.builder.bitcast(pointer, self.kind.as_pointer()), align=self.item)

    def load_repeated(self, pointer):
        """The number there, in every place of a vector."""
        return repeat(self.builder, self.builder.load(pointer), self.kind)

    def store(self, vector, pointer):
        """Write a vector, of any kind of numbers, there."""
        at = self.builder.bitcast(pointer, vector.type.as_pointer())
        self.builder.store(vector, at, align=self.bytes_of(vector.type))

    def first(self, count, many=None):
        """The mask of the first `count` of a vector's numbers, or of so `many`."""
        many = many or self.lanes
        places = ir.Constant(ir.VectorType(ir.IntType(64), many), list(range(many)))
        return self.builder.icmp_signed("<", places, repeat(self.builder, count, places.type))

    def load_first(self, pointer, mask):
        """As many numbers of the pointer's own kind as the mask has, from there on, with zeros outside it."""
        kind = ir.VectorType(pointer.type.pointee, mask.type.count)
        shape = ir.FunctionType(kind, [kind.as_pointer(), ir.IntType(32), mask.type, kind])
        load = self.builder.module.declare_intrinsic(f"llvm.masked.load.{_name(kind)}.p0", (), shape)
        at, align = self.builder.bitcast(pointer, kind.as_pointer()), self.bytes_of(kind)
        return self.builder.call(load, [at, ir.Constant(ir.IntType(32), align), mask, ir.Constant(kind, None)])

    def store_first(self, vector, pointer, mask):
        """Write what the mask keeps of a vector, of any kind of numbers, there."""
        kind = vector.type
        shape = ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), ir.IntType(32), mask.type])
        store = self.builder.module.declare_intrinsic(f"llvm.masked.store.{_name(kind)}.p0", (), shape)
        at, align = self.builder.bitcast(pointer, kind.as_pointer()), self.bytes_of(kind)
        self.builder.call(store, [vector, at, ir.Constant(ir.IntType(32), align), mask])

    def read(self, pointer, mask=None):
        """The vector that begins there, of integers or of floats in the tile's precision; zeros outside a mask."""
        kind = ir.VectorType(pointer.type.pointee, self.lanes)
        if mask is not None:
            return self.widened(self.load_first(pointer, mask))
        align = self.bytes_of(kind)
        return self.widened(self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()), align=align))

    def write(self, vector, pointer, mask=None):
        """Write the vector there, or what a mask keeps of it."""
        if mask is None:
            self.store(vector, pointer)
        else:
            self.store_first(vector, pointer, mask)

    def widened(self, vector):
        """Floats of any precision in the tile's; integers as they are."""
        if vector.type == self.kind or isinstance(vector.type.element, ir.IntType):
            return vector
        return self.builder.fpext(vector, self.kind)

    def bytes_of(self, kind):
        """Bytes of one number of such a vector."""
        return int(_name(kind)[-2:]) // 8

    def each(self, count, values, body, start=0):
        """Write ``values = body(index, mask, values)`` for `count` numbers, a vector at a time; returns the last ones.

        The mask is None but for the last vector, unless that is whole. They
        may `start` at a later vector.
        """
        start = self.whole(start) if isinstance(start, int) else start
        whole = self.builder.and_(count, self.whole(-self.lanes))

        def full(index, held):
            return body(index, None, held)

        def last(index, held):
            return body(index, self.first(self.builder.sub(count, index)), held)

        values = self.loop(start, whole, self.lanes, values, full)
        return self.loop(whole, count, self.lanes, values, last)

    def scattered(self, pointer, places):
        """Pointers to the numbers so many `places` behind one, and their size."""
        own = pointer.type.pointee
        size = self.bytes_of(ir.VectorType(own, self.lanes))
        start = repeat(self.builder, self.builder.ptrtoint(pointer, ir.IntType(64)), places.type)
        steps = self.builder.mul(places, ir.Constant(places.type, [size] * self.lanes))
        return self.builder.inttoptr(self.builder.add(start, steps), ir.VectorType(own.as_pointer(), self.lanes)), size

    def read_scattered(self, pointer, places, mask):
        """The floats so many `places` behind the pointer, in the tile's precision."""
        pointers, size = self.scattered(pointer, places)
        kind = ir.VectorType(pointer.type.pointee, self.lanes)
        shape = ir.FunctionType(kind, [pointers.type, ir.IntType(32), self.mask, kind])
        load = self.builder.module.declare_intrinsic(f"llvm.masked.gather.{_name(kind)}.v{self.lanes}p0", (), shape)
        found = self.builder.call(load, [pointers, ir.Constant(ir.IntType(32), size), mask, ir.Constant(kind, None)])
        return self.widened(found)

    def constant(self, value):
        """`value` in every place of a vector."""
        return ir.Constant(self.kind, [float(value)] * self.lanes)

    def repeated(self, number):
        """A number that is known when it runs, in every place of a vector."""
        return repeat(self.builder, number, self.kind)

    def larger(self, one, other):
        """The larger of each two numbers, `other` where one is not a number."""
        return self.builder.select(self.builder.fcmp_ordered(">", one, other), one, other)

    def smaller_number(self, one, other):
        """The smaller of each two numbers, `other` where one is not a number."""
        return self.builder.select(self.builder.fcmp_ordered("<", one, other), one, other)

    def size(self, vector):
        """Absolute values."""
        name = f"llvm.fabs.{self.name}"
        fabs = self.builder.module.declare_intrinsic(name, (), ir.FunctionType(self.kind, [self.kind]))
        return self.builder.call(fabs, [vector])

    def turned(self, vector, signs):
        """A vector with its sign turned where that of `signs` is negative."""
        bits = ir.VectorType(ir.IntType(8 * self.item), self.lanes)
        sign = ir.Constant(bits, [-(1 << (8 * self.item - 1))] * self.lanes)
        sign = self.builder.and_(self.builder.bitcast(signs, bits), sign)
        return self.builder.bitcast(self.builder.xor(self.builder.bitcast(vector, bits), sign), self.kind)

    def add_where(self, mask, total, vector):
        """``total + vector`` where the mask says so, else `total`."""
        return self.builder.select(mask, self.builder.fadd(total, vector), total)

    def smaller(self, left, right):
        """The smaller of two integers."""
        return self.builder.select(self.builder.icmp_signed("<", left, right), left, right)

    def fetch(self, address):
        """Ask for the cache line at an `address`, an integer, into the second level."""
        ask_for(self.builder, self.builder.inttoptr(address, ir.IntType(8).as_pointer()))

    def accumulate(self, count, step, rows, vectors, terms):
        """Sums of ``left[r] right[v]`` row by row, over the indices from 0 to `count` in steps.

        `terms` writes what an index gives: functions that write ``left[r]``, and ``right[v]``, asked for in order.
        """

        def add(index, sums):
            left, right = terms(index)
            own = [right(v) for v in range(vectors)]
            after = []
            for r in range(rows):
                one = left(r)
                after += [self.fused(one, own[v], sums[r * vectors + v]) for v in range(vectors)]
            return after

        return self.loop(self.whole(0), count, step, [ir.Constant(self.kind, None)] * (rows * vectors), add)

    def fused(self, left, right, total):
        """``left right + total``."""
        return self.builder.fadd(self.builder.fmul(left, right, flags=FUSED), total, flags=FUSED)

    def loop(self, start, stop, step, values, body):
        """Write ``for index in range(start, stop, step): values = body(index, values)``; returns the last values."""
        builder, before = self.builder, self.builder.block
        head, inside, done = (builder.append_basic_block(f"tile.{name}") for name in ("head", "inside", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(ir.IntType(64))
        index.add_incoming(start, before)
        held = []
        for value in values:
            phi = builder.phi(value.type)
            phi.add_incoming(value, before)
            held.append(phi)
        builder.cbranch(builder.icmp_signed("<", index, stop), inside, done)
        builder.position_at_end(inside)
        after = body(index, held)
        for phi, value in zip(held, after, strict=True):
            phi.add_incoming(value, builder.block)
        index.add_incoming(builder.add(index, self.whole(step)), builder.block)
        builder.branch(head)
        builder.position_at_end(done)
        return held

    def store_rows(self, sums, vectors, pointer, stride):
        """Write rows of so many vectors, `stride` apart, from the pointer on."""
        for k, total in enumerate(sums):
            row = self.beside(pointer, stride, k // vectors)
            self.store(total, self.beside(row, k % vectors * self.lanes))

    def total(self, vector):
        """The sum of a vector's numbers."""
        name = f"llvm.vector.reduce.fadd.{self.name}"
        shape = ir.FunctionType(self.number, [self.number, self.kind])
        add = self.builder.module.declare_intrinsic(name, (), shape)
        return self.builder.call(add, [ir.Constant(self.number, 0.0), vector], fastmath=("reassoc",))

    def totals(self, vectors):
        """The sums of vectors, at most as many as each has numbers, in one: in each round two become one.

        It has a place for each, or for the next power of two.
        """
        many = 1 << (len(vectors) - 1).bit_length()
        vectors, far = [*vectors, *[self.constant(0)] * (many - len(vectors))], self.lanes // 2
        while far:
            half = len(vectors) // 2
            if half:
                vectors = [self.builder.fadd(*self.trade(vectors[i], vectors[i + half], far)) for i in range(half)]
            else:
                other = self.pick(vectors[0], [lane ^ far for lane in range(self.lanes)])
                vectors = [self.builder.fadd(vectors[0], other)]
            far //= 2
        return self.pick(vectors[0], range(0, self.lanes, self.lanes // many))

    def pick(self, vector, places):
        """The numbers at these places of a vector."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
        return self.builder.shuffle_vector(vector, vector, mask)

    def transpose(self, vectors):
        """As many vectors as each has numbers, turned round: in each round halves of pairs change places."""
        far = self.lanes // 2
        while far:
            turned = list(vectors)
            for i in range(self.lanes):
                if not i & far:
                    turned[i], turned[i + far] = self.trade(vectors[i], vectors[i + far], far)
            vectors, far = turned, far // 2
        return vectors

    def trade(self, one, other, far):
        """Two vectors, after the second of each two groups of `far` numbers changed places with the other's first."""
        traded = []
        for start in (0, far):
            picks = [lane + start if not lane & far else self.lanes + lane + start - far for lane in range(self.lanes)]
            mask = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), picks)
            traded.append(self.builder.shuffle_vector(one, other, mask))
        return traded
