// SPDX-License-Identifier: MIT
#include <objc/runtime.h>
#include <stdio.h>
@interface Shape { Class isa; int n; } + make; - init: (int)v; - (int) area; @end
@interface Square : Shape { } - (int) area; @end
@implementation Shape
+ make { return class_createInstance(self, 0); }
- init: (int)v { n = v; return self; }
- (int) area { return 0; }
@end
@implementation Square
- (int) area { if (n > 7) @throw self; return n * n; }
@end
int main(void)
{
	int i, s = 0;
	for (i = 0; i < 10; i++) {
		@try { id x = [[Square make] init: i]; s += [x area]; } @catch (id e) { s += 1000; }
	}
	printf("%d\n", s);
	return 0;
}
