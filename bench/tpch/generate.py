"""Tables after TPC-H's specification (section 4.2), as lines for COPY.

    generate.py --scale 0.2 FOLDER

Keys, their distributions and the values that queries select by are the specification's;
texts are words of its grammar in random order. The same scale gives the same rows.
"""

import argparse
import datetime
import pathlib
import random

REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
NATIONS = [
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4),
    ("ETHIOPIA", 0), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2),
    ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0),
    ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
]
COLORS = (
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood "
    "burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim "
    "dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew "
    "hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium "
    "metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach "
    "peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna "
    "sky slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow"
).split()
TYPES = [
    ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
]
CONTAINERS = [
    ["SM", "LG", "MED", "JUMBO", "WRAP"],
    ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"],
]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
WORDS = (
    "foxes ideas theodolites pinto beans instructions dependencies excuses platelets asymptotes "
    "courts dolphins multipliers sauternes warthogs frets dinos attainments somas Tiresias "
    "patterns forges braids hockey players frays warhorses dugouts notornis epitaphs pearls "
    "sleep wake are cajole haggle nag use boost affix detect integrate furiously sly careful "
    "blithe quick fluffy slow quiet ruthless thin close dogged daring brave stealthy permanent "
    "special requests packages accounts deposits"
).split()
FIRST = datetime.date(1992, 1, 1)
TODAY = datetime.date(1995, 6, 17)


def text(chance, longest):
    """Words of at most so many characters."""
    words = " ".join(chance.choices(WORDS, k=longest // 6))
    return words[:longest].strip()


def money(chance, least, most):
    """An amount between two numbers of cents."""
    return f"{chance.randint(least, most) / 100:.2f}"


def phone(chance, nation):
    """A telephone number, of which the first part says the nation."""
    parts = [nation + 10, chance.randint(100, 999), chance.randint(100, 999), chance.randint(1000, 9999)]
    return "-".join(str(part) for part in parts)


def price(part):
    """The retail price of a part, in cents."""
    return 90000 + (part // 10) % 20001 + 100 * (part % 1000)


def supplier_of(part, place, suppliers):
    """The part's supplier of this place, from 0 to 3."""
    return (part + place * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1


def write(folder, name, rows):
    """Writes rows as COPY reads them."""
    with (folder / f"{name}.tbl").open("w", encoding="utf-8") as file:
        for row in rows:
            file.write("\t".join(map(str, row)) + "\n")


def suppliers(chance, count):
    for key in range(1, count + 1):
        nation = chance.randrange(25)
        comment = text(chance, 90)
        if key % 200 == 7:
            comment = "Customer " + comment[:60] + " Complaints"
        yield (key, f"Supplier#{key:09}", text(chance, 30), nation, phone(chance, nation),
               money(chance, -99999, 999999), comment)


def parts(chance, count):
    for key in range(1, count + 1):
        maker = chance.randint(1, 5)
        yield (key, " ".join(chance.sample(COLORS, 5)), f"Manufacturer#{maker}",
               f"Brand#{maker}{chance.randint(1, 5)}", " ".join(map(chance.choice, TYPES)),
               chance.randint(1, 50), " ".join(map(chance.choice, CONTAINERS)),
               f"{price(key) / 100:.2f}", text(chance, 20))


def partsupps(chance, count, of):
    for part in range(1, count + 1):
        for place in range(4):
            yield (part, supplier_of(part, place, of), chance.randint(1, 9999),
                   money(chance, 100, 100000), text(chance, 120))


def customers(chance, count):
    for key in range(1, count + 1):
        nation = chance.randrange(25)
        yield (key, f"Customer#{key:09}", text(chance, 30), nation, phone(chance, nation),
               money(chance, -99999, 999999), chance.choice(SEGMENTS), text(chance, 100))


def orders(chance, scale, folder):
    """Orders with their lines: two files at once."""
    customer_count, part_count = int(150_000 * scale), int(200_000 * scale)
    supplier_count = int(10_000 * scale)
    day = datetime.timedelta(days=1)
    with (folder / "orders.tbl").open("w", encoding="utf-8") as order_file, (
        folder / "lineitem.tbl"
    ).open("w", encoding="utf-8") as line_file:
        for number in range(int(1_500_000 * scale)):
            # Of 32 numbers in a row eight are used, and a third of the customers order nothing.
            key = number // 8 * 32 + number % 8 + 1
            customer = chance.randint(1, customer_count)
            while customer % 3 == 0:
                customer = chance.randint(1, customer_count)
            ordered = FIRST + chance.randint(0, 2405) * day
            total, states = 0, set()
            for line in range(1, chance.randint(1, 7) + 1):
                part = chance.randint(1, part_count)
                supplier = supplier_of(part, chance.randrange(4), supplier_count)
                quantity = chance.randint(1, 50)
                extended = quantity * price(part)
                discount, tax = chance.randint(0, 10), chance.randint(0, 8)
                shipped = ordered + chance.randint(1, 121) * day
                committed = ordered + chance.randint(30, 90) * day
                received = shipped + chance.randint(1, 30) * day
                returned = chance.choice("RA") if received <= TODAY else "N"
                state = "O" if shipped > TODAY else "F"
                states.add(state)
                total += extended * (100 - discount) * (100 + tax) // 10_000
                row = (key, part, supplier, line, quantity, f"{extended / 100:.2f}",
                       f"0.{discount:02}", f"0.{tax:02}", returned, state, shipped, committed,
                       received, chance.choice(INSTRUCTIONS), chance.choice(MODES),
                       text(chance, 30))
                line_file.write("\t".join(map(str, row)) + "\n")
            state = states.pop() if len(states) == 1 else "P"
            row = (key, customer, state, f"{total / 100:.2f}", ordered,
                   chance.choice(PRIORITIES), f"Clerk#{chance.randint(1, 1000):09}", 0,
                   text(chance, 60))
            order_file.write("\t".join(map(str, row)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    folder, scale = arguments.folder, arguments.scale
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(20)
    supplier_count, part_count = int(10_000 * scale), int(200_000 * scale)
    write(folder, "region", ((key, name, text(chance, 40)) for key, name in enumerate(REGIONS)))
    write(folder, "nation", (
        (key, name, region, text(chance, 40)) for key, (name, region) in enumerate(NATIONS)
    ))
    write(folder, "supplier", suppliers(chance, supplier_count))
    write(folder, "part", parts(chance, part_count))
    write(folder, "partsupp", partsupps(chance, part_count, supplier_count))
    write(folder, "customer", customers(chance, int(150_000 * scale)))
    orders(chance, scale, folder)


if __name__ == "__main__":
    main()
